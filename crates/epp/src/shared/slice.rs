//! The EndpointSlice of one picker: where gateways find the replica that picks. Pure functions.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::{
    api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use longboat_api::shared_picker::{
    EXT_PROC_PORT, LIMIT, MANAGED_BY, MANAGER, NEEDS_POD, PROBLEM, SERVICE_NAME, slice_name,
};
use longboat_key::{Key, Name};

use super::marked::MarkedDeployment;

/// Where a replica picks for a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) address: IpAddr,
    pub(super) port: u16,
}

/// What is written in a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SliceState {
    /// Who picks. `None` if nobody does.
    pub(super) place: Option<Place>,
    /// What the picker needs of its pod.
    pub(super) need: Option<String>,
    /// Why it does not pick, or picks with a former configuration.
    pub(super) problem: Option<String>,
    /// The limits for which it has refused requests lately.
    pub(super) limit: Option<String>,
}

/// The name of the slice for a Deployment.
pub(super) fn key(deployment: &Key) -> Key {
    Key::new(deployment.namespace.as_deref(), Name(&slice_name(&deployment.name)))
}

/// Returns what is written in a slice.
pub(super) fn state_of(slice: &EndpointSlice) -> SliceState {
    let annotation = |key: &str| slice.metadata.annotations.as_ref()?.get(key).cloned();
    let ready = slice
        .endpoints
        .iter()
        .find(|endpoint| endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(true));
    let address = ready.and_then(|endpoint| endpoint.addresses.first()?.parse().ok());
    let port = slice.ports.iter().flatten().find(|port| port.name.as_deref() == Some(EXT_PROC_PORT));
    let port = port.and_then(|port| u16::try_from(port.port?).ok());
    SliceState {
        place: address.zip(port).map(|(address, port)| Place { address, port }),
        need: annotation(NEEDS_POD),
        problem: annotation(PROBLEM),
        limit: annotation(LIMIT),
    }
}

/// Returns the slice of a Deployment with this state. Its owner is the Deployment, so that it goes with the service.
/// `address` is one of the replica that writes: the type of a slice's addresses never changes.
pub(super) fn slice_of(marked: &MarkedDeployment, state: &SliceState, address: IpAddr) -> EndpointSlice {
    let mut labels: BTreeMap<String, String> = marked.labels.iter().cloned().collect();
    labels.insert(SERVICE_NAME.to_owned(), marked.service.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let annotations = [(NEEDS_POD, &state.need), (PROBLEM, &state.problem), (LIMIT, &state.limit)];
    let annotations: BTreeMap<String, String> =
        annotations.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?))).collect();
    let slice = key(&marked.deployment);
    // No reference to the pod of the replica: it is in another namespace, and meshes would look for it in this one.
    let endpoint = state.place.map(|place| Endpoint {
        addresses: vec![place.address.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(true),
            serving: Some(true),
            terminating: Some(false),
        }),
        ..Endpoint::default()
    });
    let port = state.place.map(|place| EndpointPort {
        name: Some(EXT_PROC_PORT.to_owned()),
        port: Some(i32::from(place.port)),
        protocol: Some("TCP".to_owned()),
        ..EndpointPort::default()
    });
    EndpointSlice {
        address_type: if address.is_ipv6() { "IPv6" } else { "IPv4" }.to_owned(),
        endpoints: endpoint.into_iter().collect(),
        ports: Some(port.into_iter().collect()),
        metadata: ObjectMeta {
            name: Some(slice.name.to_string()),
            namespace: Some(slice.namespace.to_string()),
            labels: Some(labels),
            annotations: Some(annotations).filter(|all| !all.is_empty()),
            owner_references: Some(vec![OwnerReference {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                name: marked.deployment.name.to_string(),
                uid: marked.uid.clone(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
    }
}
