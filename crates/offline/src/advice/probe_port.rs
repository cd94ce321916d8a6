//! Probes that ask a port where no server listens.

use k8s_openapi::{
    api::core::v1::{Container, ContainerPort, PodSpec, Probe},
    apimachinery::pkg::util::intstr::IntOrString,
};
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use crate::{
    finding::Advice,
    pods::{MAIN, containers_of, probes, words},
};

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let of_pod = |(path, pod): (&str, &PodSpec)| -> Vec<Advice> {
        let all: Vec<_> = containers_of(path, pod).collect();
        // The containers of a pod share its address, so a sidecar may answer.
        let ports: Vec<&ContainerPort> =
            all.iter().flat_map(|(_, container)| container.ports.iter().flatten()).collect();
        let of_container = |(path, container): &(String, &Container)| -> Vec<Advice> {
            let wrong = probes(container)
                .filter_map(|(field, probe)| of_probe(&format!("{path}.{field}"), probe, container, &ports));
            wrong.collect()
        };
        all.iter().flat_map(of_container).collect()
    };
    spec.server_pods().flat_map(of_pod).collect()
}

/// Finds a port that a flag of an engine sets, and at which no probe of its container finds it.
pub(super) fn replaced(engine: &str, path: &str, port: i32, main: &Container) -> Option<Advice> {
    let ports: Vec<i32> = probes(main)
        .filter_map(|(_, probe)| match probe.http_get.as_ref()?.port {
            IntOrString::Int(port) => Some(port),
            IntOrString::String(_) => None,
        })
        .collect();
    let expected = ports.first().filter(|_| !ports.contains(&port))?;
    Some(Advice::error(
        path,
        "PortReplaced",
        format!(
            "makes {engine} listen on port {port}, but its probes and the Service use port {expected}: no pod becomes ready"
        ),
        "remove --port: the preset sets it",
    ))
}

fn of_probe(path: &str, probe: &Probe, container: &Container, of_pod: &[&ContainerPort]) -> Option<Advice> {
    let http = probe.http_get.as_ref().map(|http| ("httpGet", &http.port));
    let (action, port) = http.or(probe.tcp_socket.as_ref().map(|tcp| ("tcpSocket", &tcp.port)))?;
    let ports = container.ports.as_deref().unwrap_or_default();
    let is_there = match port {
        // Programs also listen on ports that their containers do not list, and their arguments may name them.
        IntOrString::Int(number) => {
            ports.is_empty()
                || container.name != MAIN
                || words(container).any(|word| word.contains(&number.to_string()))
                || of_pod.iter().any(|port| port.container_port == *number)
        }
        // Kubelets look up a name among the ports of the container itself.
        IntOrString::String(name) => ports.iter().any(|port| port.name.as_ref() == Some(name)),
    };
    let port_text = match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    };
    let known: Vec<String> = ports
        .iter()
        .map(|port| match &port.name {
            Some(name) => format!("{} ({name})", port.container_port),
            None => port.container_port.to_string(),
        })
        .collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    (!is_there).then(|| {
        Advice::warning(
            format!("{path}.{action}.port"),
            "ProbePort",
            format!(
                "is {port_text}, which is not among the ports of container {} ({known}): the probe fails",
                container.name
            ),
            "take one of its ports, or remove the probe, which a preset may have",
        )
    })
}
