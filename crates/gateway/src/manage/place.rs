//! Where the Gateways of a cluster are reached: the addresses of their Services. Pure functions.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use longboat_api::foreign::gateway::{Gateway, GatewayAddress};
use longboat_key::Key;

use super::parameters::Parameters;
use crate::{
    MONITORING_PORT, Picking, RoutingInputs,
    gateways::{self, requested_addresses},
    names,
    observed::has_key,
    ports::{Place, Ports, ip_address},
    problem::Problem,
};

/// Returns the places of all Gateways of this controller. `failures` has those whose objects could not be written.
pub(crate) fn ports(
    observed: &RoutingInputs,
    deployments: &[Arc<Deployment>],
    failures: &BTreeMap<Key, String>,
) -> Ports {
    let places = gateways::ours(observed).map(|gateway| {
        let key = Key::of(gateway.as_ref());
        let place = place(observed, deployments, failures.get(&key), gateway);
        (key, place)
    });
    Ports::elsewhere(places.collect(), &[MONITORING_PORT])
}

fn place(
    observed: &RoutingInputs,
    deployments: &[Arc<Deployment>],
    failure: Option<&String>,
    gateway: &Gateway,
) -> Place {
    let parameters = Parameters::of(observed, gateway);
    let requested = parameters.and_then(|parameters| Ok((parameters.picking, requested_addresses(gateway)?)));
    let (picking, requested) = match requested {
        Ok(read) => read,
        Err(problem) => return Place { refused: Some(problem), ..Place::default() },
    };
    let key = names::deployment(gateway);
    let service = observed.services.iter().find(|service| has_key(&service.metadata, &key));
    let deployment = deployments.iter().find(|deployment| has_key(&deployment.metadata, &key));
    let addresses = service.map(|service| addresses(service)).unwrap_or_default();
    let available = deployment
        .and_then(|deployment| deployment.status.as_ref()?.available_replicas)
        .is_some_and(|available| available > 0);
    let problem = |reason, message| Some(Problem { reason, message });
    let missing = requested.iter().find(|requested| {
        !addresses
            .iter()
            .any(|address| address.value.parse().is_ok_and(|ip: std::net::IpAddr| ip == **requested))
    });
    // What causes the others comes first: without its objects, a Gateway has no address, and so on.
    let unserved = if let Some(failure) = failure {
        problem("NoResources", failure.clone())
    } else if addresses.is_empty() {
        problem("AddressNotAssigned", format!("Service {key} has no address yet"))
    } else if let Some(missing) = missing {
        problem("AddressNotUsable", format!("Service {key} has not got the address {missing}"))
    } else if !available {
        problem("NoResources", format!("Deployment {key} has no available pod"))
    } else {
        None
    };
    Place { addresses, unserved, picks: picking == Picking::Gateway, ..Place::default() }
}

/// The addresses on which a Service is reached: those of its load balancer, or in the cluster.
fn addresses(service: &Service) -> Vec<GatewayAddress> {
    let Some(spec) = &service.spec else { return Vec::new() };
    if spec.type_.as_deref() == Some("LoadBalancer") {
        let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
        let ingress = balancer.into_iter().flat_map(|balancer| balancer.ingress.iter().flatten());
        let address = |entry: &k8s_openapi::api::core::v1::LoadBalancerIngress| {
            entry.ip.as_ref().map(ip_address).or_else(|| {
                let value = entry.hostname.clone()?;
                Some(GatewayAddress { type_: Some("Hostname".into()), value, ..GatewayAddress::default() })
            })
        };
        return ingress.filter_map(address).collect();
    }
    let all = spec.cluster_ips.clone().unwrap_or_else(|| spec.cluster_ip.iter().cloned().collect());
    all.iter().filter(|ip| !ip.is_empty() && *ip != "None").map(ip_address).collect()
}
