//! The Node object.
//!
//! It is written once: there is no lease to renew, since the API server and the node end together.

use std::thread::available_parallelism;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::error::NodeError;

/// The host address of the node and of its `hostNetwork` pods.
pub(crate) const HOST_IP: &str = "127.0.0.1";

/// The number of CPUs.
pub(crate) fn cpus() -> u64 {
    available_parallelism().map_or(1, |count| count.get() as u64)
}

/// The memory of this machine in bytes; 0 where that is not known.
pub(crate) fn memory_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Creates the Node object, or brings the one there is to this node's state.
pub(crate) async fn register(client: &Client, name: &str) -> Result<(), NodeError> {
    let api: Api<Node> = Api::all(client.clone());
    let failed = |source| NodeError::Register { name: name.to_owned(), source: Box::new(source) };
    let existing = api.get_opt(name).await.map_err(failed)?;
    let existing = match existing {
        Some(node) => node,
        None => api.create(&PostParams::default(), &node(name)).await.map_err(failed)?,
    };
    let wanted = status(existing.status.as_ref());
    if existing.status.as_ref() != Some(&wanted) {
        let patch = Patch::Merge(json!({"status": wanted}));
        api.patch_status(name, &PatchParams::default(), &patch).await.map_err(failed)?;
    }
    Ok(())
}

fn node(name: &str) -> Node {
    let labels = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", std::env::consts::OS),
        ("kubernetes.io/arch", architecture()),
    ];
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec::default()),
        status: None,
    }
}

/// The name that Kubernetes has for this architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn status(before: Option<&NodeStatus>) -> NodeStatus {
    let resources: std::collections::BTreeMap<_, _> = [
        ("cpu", cpus().to_string()),
        ("memory", format!("{}Ki", memory_bytes() / 1024)),
        ("pods", "1000".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), Quantity(value)))
    .into();
    let address =
        |type_: &str, address: &str| NodeAddress { type_: type_.to_owned(), address: address.to_owned() };
    // The time of a condition that already holds stays, so that a restart writes nothing.
    let ready = before.and_then(|status| {
        status.conditions.as_ref()?.iter().find(|c| c.type_ == "Ready" && c.status == "True")
    });
    let since = ready.and_then(|condition| condition.last_transition_time.clone());
    let since = since
        .unwrap_or_else(|| Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()));
    NodeStatus {
        addresses: Some(vec![address("InternalIP", HOST_IP), address("Hostname", "localhost")]),
        allocatable: Some(resources.clone()),
        capacity: Some(resources),
        conditions: Some(vec![NodeCondition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: Some("LongboatReady".to_owned()),
            message: Some("pods run as processes of this machine".to_owned()),
            last_transition_time: Some(since.clone()),
            last_heartbeat_time: Some(since),
        }]),
        node_info: Some(NodeSystemInfo {
            architecture: architecture().to_owned(),
            container_runtime_version: format!("longboat://{}", env!("CARGO_PKG_VERSION")),
            kubelet_version: format!("v1.34.0+longboat-{}", env!("CARGO_PKG_VERSION")),
            operating_system: std::env::consts::OS.to_owned(),
            os_image: std::env::consts::OS.to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}
