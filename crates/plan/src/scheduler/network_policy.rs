//! The NetworkPolicy of the picker: which namespaces' pods may ask it for endpoints.

use k8s_openapi::{
    api::networking::v1::{
        NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
        util::intstr::IntOrString,
    },
};
use longboat_api::{
    labels::{NAMESPACE_NAME, component},
    shared_picker::EXT_PROC_PORT,
    v1alpha2::SchedulerSpec,
};

use crate::{context::Context, draft::Draft, labels, names};

/// Adds a policy that lets only pods of the platform's `pickerClients` namespaces call ext_proc, if the platform names some.
/// Metrics, health checks and KV events stay open to everybody, so the policy lists all other ports of the pod.
pub(super) fn plan(context: &Context, scheduler: &SchedulerSpec, draft: &mut Draft) -> Result<(), String> {
    let clients = &context.snapshot.platform.picker_clients;
    if clients.is_empty() {
        return Ok(());
    }
    let containers = scheduler.template.iter().flat_map(|pod| &pod.containers);
    let (ext_proc, others): (Vec<_>, Vec<_>) = containers
        .flat_map(|container| container.ports.iter().flatten())
        .partition(|port| port.name.as_deref() == Some(EXT_PROC_PORT));
    let ports = |ports: Vec<&k8s_openapi::api::core::v1::ContainerPort>| {
        let numbers = ports.into_iter().map(|port| NetworkPolicyPort {
            port: Some(IntOrString::Int(port.container_port)),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".into())),
            end_port: None,
        });
        numbers.collect::<Vec<_>>()
    };
    let namespaces = LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: NAMESPACE_NAME.into(),
            operator: "In".into(),
            values: Some(clients.clone()),
        }]),
        match_labels: None,
    };
    let gateways = NetworkPolicyPeer { namespace_selector: Some(namespaces), ..NetworkPolicyPeer::default() };
    // A rule without ports would allow all of them, so a rule that would have none is left out.
    let rules = [(Some(vec![gateways]), ports(ext_proc)), (None, ports(others))];
    let ingress = rules
        .into_iter()
        .filter(|(_, ports)| !ports.is_empty())
        .map(|(from, ports)| NetworkPolicyIngressRule { from, ports: Some(ports) });
    let own_labels = labels::of(component::SCHEDULER, context.name);
    let policy = NetworkPolicy {
        metadata: context.child_metadata(names::scheduler(context.name), own_labels.clone()),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector { match_labels: Some(own_labels), match_expressions: None }),
            policy_types: Some(vec!["Ingress".into()]),
            ingress: Some(ingress.collect()),
            egress: None,
        }),
    };
    draft.add(context, policy)
}
