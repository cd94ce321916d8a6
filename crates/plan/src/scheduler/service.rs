//! The Service of the picker, which gateways call.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use longboat_api::{labels::component, shared_picker::EXT_PROC_PORT, v1alpha2::SchedulerSpec};
use longboat_key::Name;

use crate::{context::Context, labels, names};

/// The names of container ports that the Service publishes.
const PORTS: [&str; 4] = [EXT_PROC_PORT, "grpc-health", "metrics", "zmq"];

/// Publishes the named ports of the picker's containers, sorted by name.
pub(super) fn plan(context: &Context, scheduler: &SchedulerSpec) -> Service {
    let containers = scheduler.template.iter().flat_map(|pod| &pod.containers);
    // Of several ports with one name, the last counts, as in the reference.
    let named: BTreeMap<&str, ServicePort> = containers
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            let name = port.name.as_deref().filter(|name| PORTS.contains(name))?;
            let published = ServicePort {
                name: Some(name.to_owned()),
                port: port.container_port,
                protocol: port.protocol.clone(),
                target_port: Some(IntOrString::String(name.to_owned())),
                ..ServicePort::default()
            };
            Some((name, published))
        })
        .collect();
    let own_labels = labels::of(component::SCHEDULER, context.name);
    Service {
        metadata: context.child_metadata(name(context), own_labels.clone()),
        spec: Some(ServiceSpec {
            selector: Some(own_labels),
            ports: Some(named.into_values().collect()),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The name of the Service: the one in the managed pool's spec, or the default name.
pub(crate) fn name(context: &Context) -> String {
    let in_pool = || {
        let scheduler = context.spec.scheduler().filter(|scheduler| scheduler.external_pool().is_none())?;
        let name = &scheduler.pool.as_ref()?.spec.as_ref()?.endpoint_picker_ref.name;
        Some(name.clone()).filter(|name| !name.is_empty())
    };
    in_pool().unwrap_or_else(|| names::scheduler_service(context.name))
}

/// The picker's DNS name for the certificate, which the picker shares with the model server. The picker may be the one of the
/// managed pool or of the user's pool.
pub(crate) fn dns_name(context: &Context) -> Option<String> {
    let scheduler = context.spec.scheduler()?;
    let service = if let Some(pool) = scheduler.external_pool() {
        let pool = context.snapshot.inference_pools.get(context.namespace, Name(pool))?;
        pool.spec.endpoint_picker_ref.name.clone()
    } else {
        scheduler.pool.as_ref()?.spec.as_ref()?;
        name(context)
    };
    Some(service).filter(|name| !name.is_empty())
}
