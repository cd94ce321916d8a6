//! The Service in front of the pods that serve.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use longboat_api::labels::component;

use super::metadata;
use crate::{context::Context, labels, names};

/// The port on which the presets' servers listen, or the sidecars before them.
pub(crate) const PORT: i32 = 8000;

/// Plans the Service. Its only port is named for the protocol that the pods speak.
pub(super) fn plan(context: &Context) -> Service {
    let workload = &context.spec.workload;
    let mut own_labels = labels::of(component::WORKLOAD, context.name);
    own_labels.extend(workload.labels.clone());
    let mut object = context.child_metadata(names::workload_service(context.name), own_labels);
    object.annotations =
        Some(metadata::without_routing_marks(&workload.annotations)).filter(|all| !all.is_empty());
    let protocol = context.scheme();
    Service {
        metadata: object,
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            selector: Some(labels::workload_selector(context.name)),
            ports: Some(vec![ServicePort {
                name: Some(protocol.into()),
                app_protocol: Some(protocol.into()),
                protocol: Some("TCP".into()),
                port: PORT,
                target_port: Some(IntOrString::Int(PORT)),
                node_port: None,
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}
