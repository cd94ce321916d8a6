//! The scheduler: binds each pod to the only node if the node admits it.
//!
//! The scheduler respects settings that people make by hand: `kubectl cordon`, taints, node selectors and node affinity. It
//! ignores resource requests: this machine enforces none, and presets request accelerators that the simulator does not need.
//! The number of pods is limited, as that of a kubelet ([`places`]): without a limit, a wrong number of replicas would fill the
//! machine with processes.
//! Unless scheduling is strict, the node stands in for the nodes that pods select ([`stand_in`]).

mod fit;
mod places;
mod requirement;
mod stand_in;
mod tainted;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use longboat_key::Key;
use serde_json::json;
use tokio::sync::watch;

use super::pods::{has_ended, is_active};
use super::queue::{self, Again, Reconcile, Trigger};
use super::setup::Setup;
use super::writes::{api_beside, delete_pod, now, tolerate};
use crate::cache::Cache;
use crate::events::{Recorder, Severity};
use crate::registration::PRETENDED_LABELS;
use places::Places;
use tainted::Tainted;

/// The most labels that the node takes, and the most labels and taints that it reports. Pods of different names could ask for
/// any number.
const STAND_IN_LIMIT: usize = 64;

/// Reports the labels and taints of the nodes for which the node stands in, as `key=value`. `None` if scheduling is strict.
pub(crate) type StandIns = Option<watch::Sender<BTreeSet<String>>>;

struct Scheduler {
    client: Client,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    recorder: Recorder,
    node: String,
    stand_ins: StandIns,
    /// The labels that the node has taken. The cache may be behind, so this is the only complete record.
    pretended: BTreeMap<String, String>,
    /// The uid of the Node object that has these labels.
    labelled: Option<String>,
    places: Places,
    tainted: Tainted,
}

/// Why a pod waits, in the words of Kubernetes' scheduler, which also says what preemption could do.
struct Wait {
    reason: String,
    preemption: &'static str,
}

const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

pub(super) async fn run(
    Setup { client, caches, recorder, cancel }: Setup,
    node: String,
    stand_ins: StandIns,
) {
    // A change of the node concerns every pod.
    let nodes = futures::StreamExt::map(caches.nodes.changes(), |_| Trigger::All);
    caches.nodes.ready().await;
    caches.pods.ready().await;
    // After a restart, pods may be here already.
    let mut places = Places::default();
    for pod in caches.pods.all().iter().filter(|pod| is_bound(pod) && !has_ended(pod)) {
        places.take(Key::of(pod.as_ref()), pod.uid());
    }
    let scheduler = Scheduler {
        client,
        pods: caches.pods.clone(),
        nodes: caches.nodes,
        recorder,
        node,
        stand_ins,
        pretended: BTreeMap::new(),
        labelled: None,
        places,
        tainted: Tainted::default(),
    };
    queue::run(scheduler, caches.pods, nodes, cancel).await;
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|node| !node.is_empty())
}

fn is_gated(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    gates.is_some_and(|gates| !gates.is_empty())
}

impl Reconcile<Pod> for Scheduler {
    const NAME: &'static str = "scheduler";

    async fn reconcile(&mut self, key: &Key, _: &Pod) -> Again {
        self.schedule(key).await
    }

    // A pod that ended makes room for another one.
    async fn finalize(&mut self, key: &Key, _: &Pod) -> Again {
        self.schedule(key).await
    }

    async fn forget(&mut self, key: &Key) -> Again {
        self.schedule(key).await
    }
}

impl Scheduler {
    async fn schedule(&mut self, key: &Key) -> Again {
        // The watch will report the node once it is registered.
        let Some(node) = self.nodes.get("", &self.node) else { return Ok(None) };
        // A node that somebody deleted registers again without the labels that it pretends to have.
        if self.labelled != node.metadata.uid {
            if !self.pretended.is_empty() {
                self.label(&stand_in::given_labels(&node, &self.pretended)).await?;
            }
            self.labelled.clone_from(&node.metadata.uid);
        }
        let again = self.place(key, &node).await?;
        // One pod that ended makes room for one pod that waits.
        while self.places.taken() < fit::max_pods(&node)
            && let Some(next) = self.places.next_waiting()
        {
            if let Err(error) = self.place(&next, &node).await {
                self.places.wait(next);
                return Err(error);
            }
        }
        Ok(again)
    }

    /// Binds the pod if the node admits it. Returns when to look at the pod again.
    async fn place(&mut self, key: &Key, node: &Node) -> Again {
        let pod = self.pods.get(&key.namespace, &key.name).filter(|pod| !has_ended(pod));
        let Some(pod) = pod else {
            self.places.free(key, None);
            self.tainted.forget(key);
            return Ok(None);
        };
        let uid = pod.uid();
        self.places.free(key, Some(&uid));
        if is_bound(&pod) {
            self.places.take(key.clone(), uid);
            return if is_active(&pod) { self.evict(key, &pod, node).await } else { Ok(None) };
        }
        // A pod that is bound already keeps its place: the cache is behind.
        if !is_active(&pod) || is_gated(&pod) || self.places.has(key) {
            return Ok(None);
        }
        let given = self.stand_ins.is_some().then(|| stand_in::given_labels(node, &self.pretended));
        if let Some(reason) = fit::unschedulable_reason(&pod, node, given.as_ref()) {
            self.refuse(&pod, &Wait { reason, preemption: NOT_HELPFUL }).await?;
            return Ok(None);
        }
        if self.places.taken() >= fit::max_pods(node) {
            self.refuse(&pod, &Wait { reason: "1 Too many pods".to_owned(), preemption: NO_VICTIMS }).await?;
            self.places.wait(key.clone());
            return Ok(None);
        }
        if let Some(given) = given {
            self.stand_in(&pod, node, &given).await?;
        }
        if self.bind(key, &pod).await? {
            self.places.take(key.clone(), uid);
        }
        Ok(None)
    }

    /// Gives the node the labels of the node that the pod asks for, except those that it has with another value, and reports
    /// what it pretends to be.
    async fn stand_in(
        &mut self,
        pod: &Pod,
        node: &Node,
        given: &BTreeMap<String, String>,
    ) -> Result<(), kube::Error> {
        let mut asked = stand_in::labels(pod, node, given).unwrap_or_default();
        for key in stand_in::topology_keys(pod) {
            let present = node.labels().get(key).or_else(|| self.pretended.get(key));
            let value = present.cloned().unwrap_or_else(|| self.node.clone());
            asked.entry(key.to_owned()).or_insert(value);
        }
        asked.retain(|key, value| node.labels().get(key) != Some(value));
        let mut reports: BTreeSet<String> =
            asked.iter().map(|(key, value)| format!("{key}={value}")).collect();
        reports.extend(stand_in::tolerated_taints(pod).iter().map(|taint| format!("taint {taint}")));
        let before = self.pretended.len();
        for (key, value) in asked {
            if self.pretended.len() < STAND_IN_LIMIT && !node.labels().contains_key(&key) {
                self.pretended.entry(key).or_insert(value);
            }
        }
        if self.pretended.len() > before {
            self.label(given).await?;
        }
        if let Some(sender) = &self.stand_ins {
            sender.send_if_modified(|known| {
                let before = known.len();
                known.extend(reports.into_iter().take(STAND_IN_LIMIT.saturating_sub(before)));
                known.len() > before
            });
        }
        Ok(())
    }

    /// Writes the labels that the node pretends to have, except those that a person has given it.
    async fn label(&self, given: &BTreeMap<String, String>) -> Result<(), kube::Error> {
        let labels = json!(self.pretended).to_string();
        let new: BTreeMap<_, _> =
            self.pretended.iter().filter(|(key, _)| !given.contains_key(*key)).collect();
        let metadata = json!({"labels": new, "annotations": {PRETENDED_LABELS: labels}});
        let api: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"metadata": metadata}));
        match api.patch_metadata(&self.node, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            // The labels only show what happens, so a refused one keeps no pod from running.
            Err(kube::Error::Api(error)) => {
                tracing::warn!(error = error.message, "Cannot label the node.");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether the pod is bound by this.
    async fn bind(&self, key: &Key, pod: &Pod) -> Result<bool, kube::Error> {
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.to_string()),
                namespace: Some(key.namespace.to_string()),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(self.node.clone()),
                ..ObjectReference::default()
            },
        };
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let bound: Result<serde_json::Value, _> =
            api.create_subresource("binding", &key.name, &PostParams::default(), &binding).await;
        // Otherwise the pod is already bound, or deleted: the cache is behind.
        if tolerate(bound, &[404, 409])?.is_none() {
            return Ok(false);
        }
        let message = format!("Successfully assigned {}/{} to {}", key.namespace, key.name, self.node);
        self.recorder.publish(pod, Severity::Normal, "Scheduled", message);
        Ok(true)
    }

    /// Reports why the pod stays Pending, once per reason.
    async fn refuse(&self, pod: &Pod, wait: &Wait) -> Result<(), kube::Error> {
        let Wait { reason, preemption } = wait;
        let message = format!(
            "0/1 nodes are available: {reason}. preemption: 0/1 nodes are available: 1 {preemption}."
        );
        let conditions = || pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if conditions().any(|c| c.type_ == "PodScheduled" && c.message.as_ref() == Some(&message)) {
            return Ok(());
        }
        let others = conditions().filter(|condition| condition.type_ != "PodScheduled");
        let mut all: Vec<_> = others.map(|condition| json!(condition)).collect();
        all.push(json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": now(),
        }));
        let api: Api<Pod> = api_beside(&self.client, pod);
        let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": all}}));
        let answer = api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await;
        if tolerate(answer, &[404, 409])?.is_none() {
            return Ok(());
        }
        self.recorder.publish(pod, Severity::Warning, "FailedScheduling", message);
        Ok(())
    }

    /// Deletes a pod that a `NoExecute` taint evicts, once its toleration has expired.
    async fn evict(&mut self, key: &Key, pod: &Pod, node: &Node) -> Again {
        let at = Timestamp::now();
        let Some(due) = self.tainted.due(key, pod, node, at) else { return Ok(None) };
        if due > at {
            return Ok(Some(due.duration_since(at).unsigned_abs() + Duration::from_millis(10)));
        }
        // A controller of the pod can see by the condition why the pod ends.
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": now()});
        let patch =
            Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}}));
        let api: Api<Pod> = api_beside(&self.client, pod);
        tolerate(api.patch_status(&key.name, &PatchParams::default(), &patch).await, &[404, 409])?;
        if !delete_pod(&self.client, pod).await? {
            return Ok(None);
        }
        let recorder = self.recorder.of("taint-eviction-controller");
        let message = format!("Marking for deletion Pod {}/{}", key.namespace, key.name);
        recorder.publish(pod, Severity::Normal, "TaintManagerEviction", message);
        Ok(None)
    }
}
