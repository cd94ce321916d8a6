//! Asks engines directly, without gateways and pickers.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use longboat_api::labels::{NAME, ROLE};
use longboat_key::Namespace;
use serde_json::Value;

use super::{MAX_CONCURRENT_REQUESTS, MODELS_TIMEOUT};
use crate::{
    chain,
    facts::{Engine, Facts},
};

/// The number of engines of each role that are asked. All engines of a Deployment report the same.
const MAX_ENGINES_PER_ROLE: usize = 2;
/// The most bytes of a response that are read.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Asks the ready engines of services for their version and models, through the API server. If the API server does not
/// forward requests, nothing is known.
pub(super) async fn gather(client: &Client, facts: &mut Facts) {
    let mut counts: BTreeMap<[String; 3], usize> = BTreeMap::new();
    let mut asked = Vec::new();
    for pod in facts.pods.iter().filter(|pod| chain::pods::is_ready(pod)) {
        let Some((namespace, name, group)) = engine_of(pod) else { continue };
        let count = counts.entry(group).or_default();
        *count += 1;
        if *count <= MAX_ENGINES_PER_ROLE {
            asked.push((namespace, name));
        }
    }
    let engines = stream::iter(asked)
        .map(|(namespace, name)| {
            let client = client.clone();
            async move {
                let engine = ask(&client, Namespace(&namespace), &name).await?;
                Some((format!("{namespace}/{name}"), engine))
            }
        })
        .buffered(MAX_CONCURRENT_REQUESTS);
    facts.engines = engines.filter_map(std::future::ready).collect().await;
}

/// Returns namespace and name of a pod with an engine, and the group to which it belongs.
fn engine_of(pod: &Pod) -> Option<(String, String, [String; 3])> {
    let labels = pod.metadata.labels.as_ref()?;
    let (namespace, name) = (pod.metadata.namespace.clone()?, pod.metadata.name.clone()?);
    let group = [namespace.clone(), labels.get(NAME)?.clone(), labels.get(ROLE)?.clone()];
    Some((namespace, name, group))
}

async fn ask(client: &Client, namespace: Namespace<&str>, pod: &str) -> Option<Engine> {
    for scheme in ["https", "http"] {
        let models = get(client, namespace, scheme, pod, "v1/models").await;
        let Some(models) = models else { continue };
        let names = models["data"].as_array().into_iter().flatten();
        let models = names.filter_map(|model| Some(model["id"].as_str()?.to_owned())).collect();
        let version = get(client, namespace, scheme, pod, "version").await;
        let version = version.and_then(|body| Some(body["version"].as_str()?.to_owned()));
        return Some(Engine { version, models });
    }
    None
}

async fn get(
    client: &Client,
    namespace: Namespace<&str>,
    scheme: &str,
    pod: &str,
    path: &str,
) -> Option<Value> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{scheme}:{pod}:8000/proxy/{path}");
    let request = http::Request::get(path).body(Vec::new()).ok()?;
    let text = tokio::time::timeout(MODELS_TIMEOUT, client.request_text(request)).await.ok()?.ok()?;
    if text.len() > MAX_RESPONSE_BYTES {
        return None;
    }
    serde_json::from_str(&text).ok()
}
