//! Asks engines directly, without gateways and pickers.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, client::Body};
use longboat_api::labels::{NAME, ROLE};
use longboat_key::Namespace;
use serde_json::Value;

use super::limits::{MAX_CONCURRENT_REQUESTS, MODELS_TIMEOUT};
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
            asked.push((namespace, name, schemes(pod)));
        }
    }
    let engines = stream::iter(asked)
        .map(|(namespace, name, schemes)| {
            let client = client.clone();
            async move {
                let engine = ask(&client, Namespace(&namespace), &name, schemes).await?;
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

/// Returns the schemes that an engine may have: the one of the probes, which the engine answers, or both if nothing is probed. A
/// request with the wrong scheme is a 503, which the client repeats for seconds.
fn schemes(pod: &Pod) -> &'static [&'static str] {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let probes = containers.flat_map(|found| found.readiness_probe.iter().chain(&found.liveness_probe));
    let mut https =
        probes.filter_map(|probe| Some(probe.http_get.as_ref()?.scheme.as_deref() == Some("HTTPS")));
    match https.next() {
        Some(true) => &["https"],
        Some(false) => &["http"],
        None => &["https", "http"],
    }
}

async fn ask(client: &Client, namespace: Namespace<&str>, pod: &str, schemes: &[&str]) -> Option<Engine> {
    for scheme in schemes {
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
    let request = http::Request::get(path).body(Body::empty()).ok()?;
    let read = async {
        let response = client.send(request).await.ok().filter(|response| response.status().is_success())?;
        // The pod may be anything that a user runs, so its length is not trusted.
        Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await.ok()
    };
    let body = tokio::time::timeout(MODELS_TIMEOUT, read).await.ok()??;
    serde_json::from_slice(&body.to_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
    };

    use http_body_util::StreamBody;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn no_more_of_a_response_is_read_than_its_limit() {
        const CHUNK: usize = 64 << 10;
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = sent.clone();
        let answer = move |_: http::Request<Body>| {
            let counter = counter.clone();
            let chunks =
                stream::repeat(vec![b' '; CHUNK]).take(4 * MAX_RESPONSE_BYTES / CHUNK).map(move |chunk| {
                    counter.fetch_add(chunk.len(), Relaxed);
                    Ok::<_, Infallible>(http_body::Frame::data(bytes::Bytes::from(chunk)))
                });
            let response = http::Response::new(StreamBody::new(chunks));
            std::future::ready(Ok::<_, Infallible>(response))
        };
        let client = Client::new(tower::service_fn(answer), "default");
        assert_eq!(get(&client, Namespace("ns"), "http", "pod", "version").await, None);
        assert!(sent.load(Relaxed) <= MAX_RESPONSE_BYTES + CHUNK, "{sent:?}");
    }

    #[test]
    fn an_engine_is_asked_with_the_scheme_of_its_probes() {
        let of = |container: Value| {
            schemes(&serde_json::from_value(json!({"spec": {"containers": [container]}})).unwrap())
        };
        let probe = |scheme: &str| json!({"httpGet": {"path": "/health", "port": 8000, "scheme": scheme}});
        assert_eq!(of(json!({"name": "main", "readinessProbe": probe("HTTPS")})), ["https"]);
        assert_eq!(of(json!({"name": "main", "livenessProbe": probe("HTTP")})), ["http"]);
        let command = json!({"exec": {"command": ["true"]}});
        assert_eq!(of(json!({"name": "main", "readinessProbe": command})), ["https", "http"]);
    }
}
