//! The Node object.
//!
//! The node writes it once, and again if somebody deletes it, and otherwise only labels (`controllers/scheduler`). There is no lease
//! to renew, because the API server and the node end together.

use std::collections::BTreeMap;
use std::thread::available_parallelism;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use longboat_api::node::MOUNT_NAMESPACES;
use longboat_types::KUBERNETES_VERSION;
use serde_json::{Map, Value, json};

use crate::cache::{Cache, Change};
use crate::error::NodeError;
use crate::usage;

/// The host address of the node and of its `hostNetwork` pods.
pub(crate) const HOST_IP: &str = "127.0.0.1";

/// The annotation with the labels, as JSON, that the node only pretends to have.
pub(crate) const PRETENDED_LABELS: &str = "longboat.dev/pretended-labels";

/// The taint that the API server adds to a new node.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The most pods, as by default of a kubelet. Each pod is several processes of this machine.
const MAX_PODS: u32 = 110;

/// How long to wait after a registration that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What the Node object says of this node.
#[derive(Debug, Clone)]
pub(crate) struct Registration {
    pub(crate) name: String,
    /// The labels that were asked for.
    pub(crate) labels: BTreeMap<String, String>,
    /// The reason and the message of the condition that there are no mount namespaces.
    pub(crate) rewritten: Option<(&'static str, String)>,
}

/// Returns the number of CPUs.
pub(crate) fn cpus() -> u64 {
    available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Returns the memory of this machine in bytes, or 0 if it is unknown.
pub(crate) fn memory_bytes() -> u64 {
    usage::size(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemTotal:")
}

// === impl Registration ===

impl Registration {
    /// Creates the Node object, or updates the existing one.
    pub(crate) async fn write(&self, client: &Client) -> Result<(), NodeError> {
        let Self { name, labels, rewritten } = self;
        let api: Api<Node> = Api::all(client.clone());
        let failed = |source| NodeError::Register { name: name.clone(), source: Box::new(source) };
        let existing = api.get_opt(name).await.map_err(failed)?;
        let existing = match existing {
            Some(node) => node,
            None => api.create(&PostParams::default(), &node(name)).await.map_err(failed)?,
        };
        if let Some(change) = label_change(&existing, labels) {
            api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(change)).await.map_err(failed)?;
        }
        // A new node has this taint until it is ready. This node is ready.
        let taints = existing.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let kept: Vec<&Taint> = taints.iter().filter(|taint| taint.key != NOT_READY).collect();
        if kept.len() < taints.len() {
            let patch = Patch::Merge(json!({"spec": {"taints": kept}}));
            api.patch(name, &PatchParams::default(), &patch).await.map_err(failed)?;
        }
        let rewritten = rewritten.as_ref().map(|(reason, message)| (*reason, message.as_str()));
        let wanted = status(existing.status.as_ref(), rewritten);
        if existing.status.as_ref() != Some(&wanted) {
            let patch = Patch::Merge(json!({"status": wanted}));
            api.patch_status(name, &PatchParams::default(), &patch).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Registers the node again whenever somebody deletes it: without it, no pod is bound.
    pub(crate) async fn keep(self, client: Client, nodes: Cache<Node>) {
        let mut changes = std::pin::pin!(nodes.changes());
        // Before the first list, the node seems to be missing.
        nodes.ready().await;
        while let Some(change) = changes.next().await {
            // A list may begin after the deletion, so only the cache tells whether the node is there.
            if matches!(change, Change::Applied(_)) || nodes.get("", &self.name).is_some() {
                continue;
            }
            tracing::warn!(node = self.name, "The node was deleted, and registers again.");
            while let Err(error) = self.write(&client).await {
                tracing::warn!(%error, "Cannot register the node.");
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }
}

/// Returns a patch that sets `labels`, and removes the labels that an earlier node only pretended to have. Returns `None` if
/// there is nothing to change.
fn label_change(node: &Node, labels: &BTreeMap<String, String>) -> Option<Value> {
    let recorded = node.annotations().get(PRETENDED_LABELS);
    let pretended: BTreeMap<String, String> =
        recorded.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut change = Map::new();
    for (key, value) in &pretended {
        // A person may have changed the label since.
        if node.labels().get(key) == Some(value) {
            change.insert(key.clone(), Value::Null);
        }
    }
    for (key, value) in labels {
        if node.labels().get(key) != Some(value) || change.contains_key(key) {
            change.insert(key.clone(), value.clone().into());
        }
    }
    if recorded.is_none() {
        // The scheduler may have recorded labels since, on a node that was just created.
        return (!change.is_empty()).then(|| json!({"metadata": {"labels": change}}));
    }
    Some(json!({"metadata": {"labels": change, "annotations": {PRETENDED_LABELS: null}}}))
}

/// Returns the labels that describe this machine.
pub(crate) fn own_labels(name: &str) -> BTreeMap<String, String> {
    let labels = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", std::env::consts::OS),
        ("kubernetes.io/arch", longboat_download::architecture()),
    ];
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn node(name: &str) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(own_labels(name)),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec::default()),
        status: None,
    }
}

fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Returns the name of the operating system's distribution.
fn os_image() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| std::env::consts::OS.to_owned(), |name| name.trim_matches('"').to_owned())
}

fn status(before: Option<&NodeStatus>, rewritten: Option<(&str, &str)>) -> NodeStatus {
    let resources: BTreeMap<_, _> = [
        ("cpu", cpus().to_string()),
        ("memory", format!("{}Ki", memory_bytes() / 1024)),
        ("pods", MAX_PODS.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), Quantity(value)))
    .into();
    let address =
        |type_: &str, address: &str| NodeAddress { type_: type_.to_owned(), address: address.to_owned() };
    // An unchanged condition keeps its time, so that a restart writes nothing.
    let now = Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default());
    let condition = |type_: &str, value: &str, reason: &str, message: &str| {
        let earlier = before.and_then(|status| {
            status.conditions.as_ref()?.iter().find(|c| c.type_ == type_ && c.status == value)
        });
        let since = earlier.and_then(|earlier| earlier.last_transition_time.clone());
        let since = since.unwrap_or_else(|| now.clone());
        NodeCondition {
            type_: type_.to_owned(),
            status: value.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(since.clone()),
            last_heartbeat_time: Some(since),
        }
    };
    let mounts = rewritten.map_or_else(
        || condition(MOUNT_NAMESPACES, "True", "Mounted", "pods see volumes at the paths of their manifests"),
        |(reason, message)| condition(MOUNT_NAMESPACES, "False", reason, message),
    );
    let unmeasured = "Longboat does not measure the pressure of this machine";
    NodeStatus {
        addresses: Some(vec![address("InternalIP", HOST_IP), address("Hostname", "localhost")]),
        allocatable: Some(resources.clone()),
        capacity: Some(resources),
        conditions: Some(vec![
            condition("MemoryPressure", "False", "NotMeasured", unmeasured),
            condition("DiskPressure", "False", "NotMeasured", unmeasured),
            condition("PIDPressure", "False", "NotMeasured", unmeasured),
            mounts,
            condition("Ready", "True", "LongboatReady", "pods run as processes of this machine"),
        ]),
        node_info: Some(NodeSystemInfo {
            architecture: longboat_download::architecture().to_owned(),
            container_runtime_version: format!("longboat://{}", env!("CARGO_PKG_VERSION")),
            kubelet_version: format!("{KUBERNETES_VERSION}+longboat-{}", env!("CARGO_PKG_VERSION")),
            operating_system: std::env::consts::OS.to_owned(),
            kernel_version: kernel(),
            os_image: os_image(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_node_forgets_what_it_pretended_and_keeps_what_people_set() {
        let mut kept = node("n");
        let given = BTreeMap::from([("zone".to_owned(), "b".to_owned())]);
        assert_eq!(label_change(&kept, &BTreeMap::new()), None);
        let set = json!({"metadata": {"labels": {"zone": "b"}}});
        assert_eq!(label_change(&kept, &given), Some(set));
        for (key, value) in [("gpu", "A100"), ("disk", "hdd"), ("zone", "a")] {
            kept.labels_mut().insert(key.to_owned(), value.to_owned());
        }
        // A person has changed `disk` since.
        let note = json!({"gpu": "A100", "disk": "ssd", "zone": "a"}).to_string();
        kept.annotations_mut().insert(PRETENDED_LABELS.to_owned(), note);
        let labels = json!({"gpu": null, "zone": "b"});
        let change = json!({"metadata": {"labels": labels, "annotations": {PRETENDED_LABELS: null}}});
        assert_eq!(label_change(&kept, &given), Some(change));
    }
}
