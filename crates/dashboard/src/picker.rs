//! The endpoint pickers of services, and their decisions.

use http::StatusCode;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::{Api, Client, api::ListParams};
use longboat_api::labels;
use longboat_controller::reader;
use longboat_key::{Key, Namespace};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{
    Reach,
    reach::{Port, declared},
};

/// The port on which a picker serves metrics and decisions, unless its pod declares another.
const METRICS: i32 = 9090;

/// The most decisions to request from a picker.
const DECISIONS: usize = 50;

/// The port on which a gateway that picks serves decisions, as its pod names it.
const MONITORING: &str = "monitoring";
/// The labels of the pods of Longboat's own gateways, and of the picker that pools share.
const OF_POOLS: &str =
    "app.kubernetes.io/component in (gateway,picker),app.kubernetes.io/managed-by=longboat";
/// The flag of a gateway that picks, and the command of the picker that pools share.
const PICKING: [&str; 2] = ["--picking=gateway", "shared-picker"];

/// Returns the pods that have decisions: pickers of services, and what picks in their place, which are gateways and the shared picker.
/// These pick for services of any namespace, so those in another namespace belong to the result too, if the caller may list them.
///
/// # Errors
///
/// If the cluster cannot list the pods. The error is a sentence.
pub async fn deciding(client: &Client, namespace: Option<Namespace<&str>>) -> Result<Vec<Pod>, String> {
    let mut all = pods(client, namespace, None).await?;
    let params = ListParams::default().labels(OF_POOLS);
    let mut others = reader::list(&Api::<Pod>::all(client.clone()), &params).await;
    if let (Err(_), Some(namespace)) = (&others, namespace) {
        others = reader::list(&Api::<Pod>::namespaced(client.clone(), &namespace), &params).await;
    }
    let picks = |pod: &Pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let words = |container: &Container| {
            let words = [&container.command, &container.args].into_iter().flatten().flatten();
            words.into_iter().any(|word| PICKING.contains(&word.as_str()))
        };
        containers.into_iter().any(words)
    };
    // Whoever may not list them may not read their decisions either.
    all.extend(others.ok().flatten().unwrap_or_default().into_iter().filter(picks));
    Ok(all)
}

/// Returns the pods of pickers: of one service, of a namespace, or all.
///
/// # Errors
///
/// If the cluster cannot list the pods. The error is a sentence.
pub async fn pods(
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

/// Returns the newest decisions of a picker, newest first, or only those for the request `id`.
///
/// # Errors
///
/// If the picker records no decisions, does not answer, or denies access. The error is a sentence.
pub async fn decisions(
    client: &Client,
    reach: &Reach,
    pod: &Pod,
    id: Option<&str>,
) -> Result<Vec<Value>, String> {
    let port = port(pod);
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
                .map_err(|error| format!("cannot read the response of the picker: {error}"))?;
            match answer["decisions"].take() {
                Value::Array(decisions) => Ok(decisions),
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
