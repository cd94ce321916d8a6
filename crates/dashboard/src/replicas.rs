//! The replicas of a service, and their metrics.

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};
use longboat_api::labels;
use longboat_controller::reader;
use longboat_key::Key;
use serde::Serialize;

use crate::{
    Reach,
    metrics::{self, Sample},
    reach::{Port, declared},
};

/// The most replicas to query, sorted by name.
const MAX_REPLICAS: usize = 100;
/// How many replicas to query at the same time.
const MAX_CONCURRENT_REQUESTS: usize = 8;
/// The port of a model server, unless its pod declares another.
const SERVES: Port = Port { number: 8000, tls: false };
/// The container of the model server.
const CONTAINER: &str = "main";

/// A replica.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Replica {
    pub(crate) pod: String,
    /// `prefill`, or `decode` for all others.
    pub(crate) role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sample: Option<Sample>,
    /// Why there are no metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
}

/// Returns the pods of a service that serve its model.
pub(crate) async fn pods(client: &Client, service: &Key) -> Result<Vec<Pod>, String> {
    let api = Api::<Pod>::namespaced(client.clone(), &service.namespace);
    let selector = format!("{}={},{}={}", labels::PART_OF, labels::PART_OF_VALUE, labels::NAME, service.name);
    let listed = reader::list(&api, &ListParams::default().labels(&selector)).await;
    let mut pods = listed.map_err(|error| reader::sentence(&error))?.unwrap_or_default();
    pods.retain(|pod| {
        let component = label(pod, labels::COMPONENT);
        component.starts_with(labels::component::WORKLOAD) && !component.contains("worker")
    });
    pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    pods.truncate(MAX_REPLICAS);
    Ok(pods)
}

/// Queries all replicas.
pub(crate) async fn ask(client: &Client, reach: &Reach, pods: &[Pod]) -> Vec<Replica> {
    let asked: Vec<_> = pods.iter().map(|pod| one(client, reach, pod)).collect();
    stream::iter(asked).buffered(MAX_CONCURRENT_REQUESTS).collect().await
}

async fn one(client: &Client, reach: &Reach, pod: &Pod) -> Replica {
    let port = declared(pod, CONTAINER, None).unwrap_or(SERVES);
    let answered = reach.get(client, pod, &port, "/metrics").await.and_then(|(status, page)| {
        if status.is_success() { Ok(metrics::read(&page)) } else { Err(format!("answered {status}")) }
    });
    let (sample, trouble) = match answered {
        Ok(sample) => (Some(sample), None),
        Err(sentence) => (None, Some(sentence)),
    };
    let prefills = label(pod, labels::COMPONENT).contains("prefill");
    let role = if prefills { "prefill" } else { "decode" };
    Replica { pod: pod.metadata.name.clone().unwrap_or_default(), role, sample, trouble }
}

fn label<'a>(pod: &'a Pod, name: &str) -> &'a str {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(name)).map_or("", String::as_str)
}
