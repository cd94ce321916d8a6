//! The endpoint pickers of services, and their decisions.

use futures::{StreamExt, stream};
use http::StatusCode;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{Api, Client, api::ListParams};
use longboat_api::{decisions::NO_PICKER, labels, v1alpha2::LLMInferenceService};
use longboat_controller::reader;
use longboat_key::{Key, Namespace};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{
    Reach,
    reach::{Port, declared},
    replicas::MAX_CONCURRENT_REQUESTS,
};

/// The port on which a picker serves metrics and decisions, unless its pod declares another.
const METRICS: i32 = 9090;

/// The most decisions to request from a picker.
const MAX_DECISIONS: usize = 50;

/// The port on which a gateway that picks serves decisions, as its pod names it.
const MONITORING: &str = "monitoring";
/// The labels of the pods of Longboat's own gateways, and of the picker that pools share.
const OF_POOLS: &str =
    "app.kubernetes.io/component in (gateway,picker),app.kubernetes.io/managed-by=longboat";
/// The flag of a gateway that picks, and the command of the picker that pools share.
const PICKING: [&str; 2] = ["--picking=gateway", "shared-picker"];

/// A process that picks endpoints.
#[derive(Debug, Clone)]
pub struct Picker {
    /// Its pod.
    pub pod: Pod,
    /// What comes before the paths of its pages. A process that picks for several pools has pages for each.
    prefix: String,
}

/// Returns what picks in any service: pickers of services, and what picks in their place, which are gateways and the shared picker.
/// These pick for services of any namespace, so those in another namespace belong to the result too, if the caller may list them.
///
/// # Errors
///
/// If the cluster cannot list the pods. The error is a sentence.
pub async fn all(client: &Client, namespace: Option<Namespace<&str>>) -> Result<Vec<Picker>, String> {
    let mut pods = pods(client, namespace, None).await?;
    pods.extend(hosts(client, namespace).await);
    Ok(with_prefix(pods, ""))
}

/// Returns what may pick for a service: its own pickers, or, if it has none, what picks in their place.
///
/// # Errors
///
/// If the cluster cannot list the pods. The error is a sentence.
pub async fn of_service(client: &Client, service: &Key) -> Result<Vec<Picker>, String> {
    let own = pods(client, None, Some(service)).await?;
    if own.is_empty() { of_hosts(client, service).await } else { Ok(with_prefix(own, "")) }
}

/// Returns what may pick for a service that has no picker of its own.
///
/// # Errors
///
/// If the cluster cannot return the service. The error is a sentence.
pub(crate) async fn of_hosts(client: &Client, service: &Key) -> Result<Vec<Picker>, String> {
    let api = Api::<LLMInferenceService>::namespaced(client.clone(), &service.namespace);
    let found = api.get_opt(&service.name).await.map_err(|error| reader::sentence(&error))?;
    let status = found.and_then(|found| found.status).and_then(|status| status.router);
    let Some(pool) = status.and_then(|router| router.scheduler?.inference_pool) else {
        return Ok(Vec::new());
    };
    let namespace = pool.namespace.as_deref().unwrap_or(&service.namespace);
    let prefix = format!("/pools/{namespace}/{}", pool.name);
    Ok(with_prefix(hosts(client, Some(service.namespace.as_deref())).await, &prefix))
}

fn with_prefix(pods: Vec<Pod>, prefix: &str) -> Vec<Picker> {
    pods.into_iter().map(|pod| Picker { pod, prefix: prefix.to_owned() }).collect()
}

/// Returns the gateways that pick and the replicas of the shared picker. Whoever may not list them may not read their pages either,
/// so a refusal is no error.
async fn hosts(client: &Client, namespace: Option<Namespace<&str>>) -> Vec<Pod> {
    let params = ListParams::default().labels(OF_POOLS);
    let mut found = reader::list(&Api::<Pod>::all(client.clone()), &params).await;
    // A user of one namespace may list pods there, and not in the whole cluster.
    if let (Err(_), Some(namespace)) = (&found, namespace) {
        found = reader::list(&Api::<Pod>::namespaced(client.clone(), &namespace), &params).await;
    }
    let picks = |pod: &Pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let words = |container: &Container| {
            let words = [&container.command, &container.args].into_iter().flatten().flatten();
            words.into_iter().any(|word| PICKING.contains(&word.as_str()))
        };
        containers.into_iter().any(words)
    };
    found.ok().flatten().unwrap_or_default().into_iter().filter(picks).collect()
}

/// Returns the pods of pickers: of one service, of a namespace, or all.
///
/// # Errors
///
/// If the cluster cannot list the pods. The error is a sentence.
async fn pods(
    client: &Client,
    namespace: Option<Namespace<&str>>,
    service: Option<&Key>,
) -> Result<Vec<Pod>, String> {
    let namespace = service.map(|service| service.namespace.as_deref()).or(namespace);
    let api = match namespace {
        Some(namespace) => Api::<Pod>::namespaced(client.clone(), &namespace),
        None => Api::all(client.clone()),
    };
    let mut selector = format!("{}={}", labels::COMPONENT, labels::component::SCHEDULER);
    if let Some(service) = service {
        selector = format!("{selector},{}={}", labels::NAME, service.name);
    }
    let found = reader::list(&api, &ListParams::default().labels(&selector)).await;
    Ok(found.map_err(|error| reader::sentence(&error))?.unwrap_or_default())
}

/// Returns the decisions of these pickers, newest first, and why others show none. `None` if none of them picks for the service.
pub(crate) async fn decisions(
    client: &Client,
    reach: &Reach,
    pickers: &[Picker],
    id: Option<&str>,
) -> Option<(Vec<Value>, Vec<String>)> {
    // At the same time: each picker that has gone takes seconds.
    let asked: Vec<_> = pickers.iter().map(|picker| picker.decisions(client, reach, id)).collect();
    let answered: Vec<_> = stream::iter(asked).buffered(MAX_CONCURRENT_REQUESTS).collect().await;
    let (mut decisions, mut trouble, mut is_picked) = (Vec::new(), Vec::new(), false);
    for (picker, answered) in pickers.iter().zip(answered) {
        match answered {
            Ok(None) => continue,
            Ok(Some(found)) => decisions.extend(found),
            Err(sentence) => {
                let pod = picker.pod.metadata.name.as_deref().unwrap_or_default();
                trouble.push(format!("{pod}: {sentence}"));
            }
        }
        is_picked = true;
    }
    // Times in UTC have the order of their texts.
    decisions.sort_by(|one, other| other["time"].as_str().cmp(&one["time"].as_str()));
    is_picked.then_some((decisions, trouble))
}

// === impl Picker ===

impl Picker {
    /// Returns the newest decisions, newest first, or only those for the request `id`. Returns `None` if it does not pick for the
    /// service.
    ///
    /// # Errors
    ///
    /// If it records no decisions, does not answer, or denies access. The error is a sentence.
    pub async fn decisions(
        &self,
        client: &Client,
        reach: &Reach,
        id: Option<&str>,
    ) -> Result<Option<Vec<Value>>, String> {
        let mut path = format!("/debug/decisions?limit={MAX_DECISIONS}");
        // Clients choose ids, so any character may be in one.
        if let Some(id) = id {
            path = format!("{path}&id={}", utf8_percent_encode(id, NON_ALPHANUMERIC));
        }
        let Some((status, text)) = self.page(client, reach, &path).await? else { return Ok(None) };
        match status.as_u16() {
            200 => {
                let mut answer: Value = serde_json::from_str(&text)
                    .map_err(|error| format!("cannot read the response of the picker: {error}"))?;
                match answer["decisions"].take() {
                    Value::Array(decisions) => Ok(Some(decisions)),
                    _ => Err("the response of the picker has no decisions; the picker may be too old".into()),
                }
            }
            401 | 403 => Err(format!(
                "the picker refuses to show its decisions through the API server ({status}); start it with \
                 `--metrics-endpoint-auth=false` to allow this"
            )),
            404 => Err("the picker records no decisions: start it with `--decisions=256`".into()),
            code => Err(format!("the picker answered {code}: {}", first_line(&text))),
        }
    }

    /// Returns status and text of a page, or `None` if it does not pick for the service.
    pub(crate) async fn page(
        &self,
        client: &Client,
        reach: &Reach,
        path: &str,
    ) -> Result<Option<(StatusCode, String)>, String> {
        let (port, path) = (port(&self.pod), format!("{}{path}", self.prefix));
        let (status, text) = reach.get_from_picker(client, &self.pod, &port, &path).await?;
        Ok((status != StatusCode::NOT_FOUND || text != NO_PICKER).then_some((status, text)))
    }
}

/// Returns the port on which a picker serves metrics and decisions.
pub(crate) fn port(pod: &Pod) -> Port {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let port = containers.find_map(|container| {
        ["metrics", MONITORING].into_iter().find_map(|name| declared(pod, &container.name, Some(name)))
    });
    port.unwrap_or(Port { number: METRICS, tls: false })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slow_pickers_are_waited_for_together() {
        let answer = |request: Request<Body>| async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let second = if request.uri().path().contains("/pods/new") { 2 } else { 1 };
            let answer = json!({"decisions": [{"time": format!("2026-01-01T00:00:0{second}Z")}]});
            Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
        };
        let client = Client::new(tower::service_fn(answer), "ns");
        let pod = |name: &str| {
            serde_json::from_value::<Pod>(json!({"metadata": {"name": name, "namespace": "ns"}})).unwrap()
        };
        let pickers = with_prefix(["old", "new", "older"].map(pod).into(), "");
        let before = Instant::now();
        let (found, trouble) = decisions(&client, &Reach::proxied(), &pickers, None).await.unwrap();
        assert_eq!((before.elapsed().as_secs(), trouble.len()), (3, 0));
        let times: Vec<_> = found.iter().map(|decision| &decision["time"]).collect();
        assert_eq!(times, ["2026-01-01T00:00:02Z", "2026-01-01T00:00:01Z", "2026-01-01T00:00:01Z"]);
    }
}
