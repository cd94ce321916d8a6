//! The pods that serve a service, and their metrics.

use std::sync::Arc;

use futures::{StreamExt, stream};
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use longboat_api::{labels, names::MAIN_CONTAINER};
use longboat_key::{Key, Name, Namespace};
use serde::Serialize;

use crate::{
    Reach,
    metrics::{self, PickerSample, Sample},
    picker::{self, Picker},
    reach::{Port, declared},
};

/// The most pods to query, sorted by name.
const MAX_REPLICAS: usize = 100;
/// How many pods to query at the same time.
pub(crate) const MAX_CONCURRENT_REQUESTS: usize = 8;
/// The port of a model server, unless its pod declares another.
const DEFAULT_PORT: Port = Port { number: 8000, tls: false };
/// The page of metrics.
const METRICS: &str = "/metrics";

/// What a pod does for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// It chooses the replica for a request.
    Picker,
    /// It answers requests, and computes their prompts too if there is no prefill.
    Decode,
    /// It computes prompts for others.
    Prefill,
}

/// A replica or a picker.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Replica {
    /// `namespace/name`.
    pub(crate) service: String,
    pub(crate) pod: String,
    pub(crate) role: Role,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sample: Option<Measured>,
    /// Why there are no metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
}

/// The metrics of a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Measured {
    Engine(Sample),
    Picker(PickerSample),
}

/// Returns the pods that serve requests, of one service or of all, service by service: first the pickers, then those that
/// decode.
pub(crate) fn serving<'a>(pods: &'a [Arc<Pod>], service: Option<&Key>) -> Vec<&'a Pod> {
    let of_role = pods.iter().filter_map(|pod| Some((service_of(pod), role(pod)?, pod.as_ref())));
    let mut serving: Vec<_> =
        of_role.filter(|(of, ..)| service.is_none_or(|service| of == service)).collect();
    serving.sort_by(|(service, role, pod), (other_service, other_role, other)| {
        let one = (service, role, &pod.metadata.name);
        one.cmp(&(other_service, other_role, &other.metadata.name))
    });
    serving.truncate(MAX_REPLICAS);
    serving.into_iter().map(|(.., pod)| pod).collect()
}

/// Queries these pods.
pub(crate) async fn ask(client: &Client, reach: &Reach, pods: &[&Pod]) -> Vec<Replica> {
    let responses: Vec<_> = pods.iter().map(|pod| ask_one(client, reach, pod)).collect();
    stream::iter(responses).buffered(MAX_CONCURRENT_REQUESTS).collect().await
}

/// Queries what may pick for a service that has no picker of its own. What does not pick for it is not in the result.
pub(crate) async fn ask_hosts(
    client: &Client,
    reach: &Reach,
    service: &Key,
    hosts: &[Picker],
) -> Vec<Replica> {
    let responses: Vec<_> = hosts.iter().map(|host| host.page(client, reach, METRICS)).collect();
    let answered: Vec<_> = stream::iter(responses).buffered(MAX_CONCURRENT_REQUESTS).collect().await;
    let answered = hosts.iter().zip(answered);
    answered
        .filter_map(|(host, answered)| Some(replica(service, &host.pod, Role::Picker, answered.transpose()?)))
        .collect()
}

async fn ask_one(client: &Client, reach: &Reach, pod: &Pod) -> Replica {
    let role = role(pod).unwrap_or(Role::Decode);
    let answered = match role {
        Role::Picker => reach.get_from_picker(client, pod, &picker::port(pod), METRICS).await,
        Role::Decode | Role::Prefill => {
            let port = declared(pod, MAIN_CONTAINER, None).unwrap_or(DEFAULT_PORT);
            reach.get(client, pod, &port, METRICS).await
        }
    };
    replica(&service_of(pod), pod, role, answered)
}

fn replica(service: &Key, pod: &Pod, role: Role, answered: Result<(StatusCode, String), String>) -> Replica {
    let (sample, trouble) = match answered {
        Ok((status, page)) if status.is_success() => {
            let measured = match role {
                Role::Picker => Measured::Picker(metrics::read_picker(&page)),
                Role::Decode | Role::Prefill => Measured::Engine(metrics::read(&page)),
            };
            (Some(measured), None)
        }
        Ok((status, _)) => (None, Some(format!("answered {status}"))),
        Err(sentence) => (None, Some(sentence)),
    };
    Replica {
        service: service.to_string(),
        pod: pod.metadata.name.clone().unwrap_or_default(),
        role,
        sample,
        trouble,
    }
}

/// Returns what a pod does for requests, if it does something. Workers of a group do not, only their leader.
fn role(pod: &Pod) -> Option<Role> {
    let component = label(pod, labels::COMPONENT);
    if component == labels::component::SCHEDULER {
        Some(Role::Picker)
    } else if !component.starts_with(labels::component::WORKLOAD) || component.contains("worker") {
        None
    } else if component.contains("prefill") {
        Some(Role::Prefill)
    } else {
        Some(Role::Decode)
    }
}

/// Returns the service of a pod.
fn service_of(pod: &Pod) -> Key {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    Key::new(Namespace(namespace), Name(label(pod, labels::NAME)))
}

fn label<'a>(pod: &'a Pod, name: &str) -> &'a str {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(name)).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pickers_and_replicas_of_a_service_serve_requests() {
        let pod = |name: &str, service: &str, component: &str| {
            let labels = json!({labels::NAME: service, labels::COMPONENT: component});
            let pod = json!({"metadata": {"name": name, "namespace": "ns", "labels": labels}});
            Arc::new(serde_json::from_value::<Pod>(pod).unwrap())
        };
        let pods = [
            pod("prefill", "a", labels::component::WORKLOAD_LEADER_PREFILL),
            pod("leader", "a", labels::component::WORKLOAD_LEADER),
            pod("worker", "a", labels::component::WORKLOAD_WORKER),
            pod("alone", "b", labels::component::WORKLOAD),
            pod("picker", "a", labels::component::SCHEDULER),
            pod("tokenizer", "a", labels::component::TOKENIZER),
        ];
        let names = |service: Option<&Key>| -> Vec<&str> {
            serving(&pods, service).iter().filter_map(|pod| pod.metadata.name.as_deref()).collect()
        };
        assert_eq!(names(Some(&Key::new(Namespace("ns"), Name("a")))), ["picker", "leader", "prefill"]);
        assert_eq!(names(None), ["picker", "leader", "prefill", "alone"]);
    }
}
