//! Messages about what Ctrl-C stops.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};
use longboat_api::shell::quoted;
use longboat_controller::reader;
use longboat_key::Key;
use longboat_plan::counted;

use super::manifests;

/// Says in one sentence what is about to be stopped.
pub(crate) async fn stopping(client: &Client) -> String {
    let pods = reader::list(&Api::<Pod>::all(client.clone()), &ListParams::default()).await;
    let pods = pods.ok().flatten().map_or(0, |pods| pods.len());
    let mut parts = Vec::new();
    match manifests::services(client).await.as_slice() {
        [] => {}
        [Key { namespace, name }] => parts.push(format!("{namespace}/{name}")),
        many => parts.push(counted(many.len(), "service")),
    }
    match pods {
        0 => {}
        pods => parts.push(counted(pods, "pod")),
    }
    parts.push("the gateway, the controller and the API server".to_owned());
    format!("Stopping {}. Press Ctrl-C again to stop without waiting.", parts.join(", "))
}

/// Says in one sentence what remains.
pub(crate) fn stopped(state: Option<&Path>) -> String {
    match state {
        Some(folder) => format!(
            "Stopped. The objects are kept; `longboat up --state {}` continues with them.",
            quoted(&folder.display().to_string())
        ),
        None => "Stopped. All processes have ended, and all temporary files are removed.".to_owned(),
    }
}
