//! The pickers of services, and what they decided.

use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};
use longboat_api::labels;
use longboat_controller::reader;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{
    Reach, ServiceName,
    reach::{Port, declared},
};

/// Where a picker serves metrics and decisions unless its pod says otherwise.
const METRICS: i32 = 9090;

/// The most decisions to ask a picker for.
const DECISIONS: usize = 50;

/// The pods of pickers: of one service, of a namespace, or all.
///
/// # Errors
/// A sentence, where the cluster does not list them.
pub async fn pods(
    client: &Client,
    namespace: Option<&str>,
    service: Option<&ServiceName>,
) -> Result<Vec<Pod>, String> {
    let namespace = service.map(|service| service.namespace.as_str()).or(namespace);
    let api = match namespace {
        Some(namespace) => Api::<Pod>::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut selector = format!("{}={}", labels::COMPONENT, labels::component::SCHEDULER);
    if let Some(service) = service {
        selector = format!("{selector},{}={}", labels::NAME, service.name);
    }
    let found = reader::list(&api, &ListParams::default().labels(&selector)).await;
    Ok(found.map_err(|error| reader::sentence(&error))?.unwrap_or_default())
}

/// The newest decisions of a picker, the newest first; only those for a request where its id is given.
///
/// # Errors
/// A sentence, where the picker keeps none, does not answer, or asks who reads them.
pub async fn decisions(
    client: &Client,
    reach: &Reach,
    pod: &Pod,
    id: Option<&str>,
) -> Result<Vec<Value>, String> {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let port = containers.find_map(|container| declared(pod, &container.name, Some("metrics")));
    let port = port.unwrap_or(Port { number: METRICS, tls: false });
    let mut path = format!("/debug/decisions?limit={DECISIONS}");
    if let Some(id) = id {
        path = format!("{path}&id={}", utf8_percent_encode(id, NON_ALPHANUMERIC));
    }
    let (mut status, mut text) = reach.get(client, pod, &port, &path).await?;
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        (status, text) = reach.get_as_reader(client, pod, &port, &path).await?;
    }
    match status.as_u16() {
        200 => {
            let mut answer: Value = serde_json::from_str(&text)
                .map_err(|error| format!("the picker's answer cannot be read: {error}"))?;
            match answer["decisions"].take() {
                Value::Array(decisions) => Ok(decisions),
                _ => Err("the picker's answer holds no decisions: is it an older one?".into()),
            }
        }
        401 | 403 => Err(format!(
            "the picker lets nobody read its decisions who comes through the API server ({status}); one of another version \
             does so with `--metrics-endpoint-auth=false`"
        )),
        404 => Err("the picker keeps no decisions: start it with `--decisions=256`".into()),
        code => Err(format!("the picker answered {code}: {}", first_line(&text))),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
