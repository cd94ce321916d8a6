//! Why pods are not ready, as far as their own status tells. The status of services, the tree of `status` and `up`, the
//! dashboard and the doctor all say it in these words.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerState, ContainerStatus, Pod, PodCondition, PodStatus},
};
use longboat_api::termination;
use longboat_key::Namespace;

use crate::counted;

/// The label with the name of a pod's LeaderWorkerSet.
pub const SET_NAME: &str = "leaderworkerset.sigs.k8s.io/name";

/// The exit code of a killed process (128 + SIGKILL).
const KILLED: i32 = 137;

/// The most characters of a container's own words.
const WORDS_LIMIT: usize = 600;

/// The kind of a failure of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No node takes the pod.
    Unschedulable,
    /// The image of a container cannot be pulled.
    ImageNotPulled,
    /// A container cannot be created, because something that it refers to does not exist.
    ContainerNotCreated,
    /// A local cluster has no program for a container.
    NoLocalProgram,
    /// A container waits for another reason.
    ContainerWaits,
    /// A container was killed because it needed too much memory.
    OutOfMemory,
    /// A container ended with an error.
    ContainerCrashes,
}

/// Why a pod is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFailure {
    /// The kind.
    pub fault: Fault,
    /// The container, unless the whole pod has failed.
    pub container: Option<String>,
    /// The cause in one sentence.
    pub text: String,
}

// === impl PodFailure ===

impl PodFailure {
    fn of(fault: Fault, container: &ContainerStatus, text: String) -> Self {
        Self { fault, container: Some(container.name.clone()), text }
    }

    /// Returns the cause together with the name of the pod.
    pub fn sentence(&self, pod: &Pod) -> String {
        format!("pod {}: {}", pod.metadata.name.as_deref().unwrap_or_default(), self.text)
    }
}

/// Whether a pod is ready.
pub fn is_ready(pod: &Pod) -> bool {
    conditions(pod).any(|found| found.type_ == "Ready" && found.status == "True")
}

/// Returns the pods of a namespace with these labels.
pub fn selected<'p>(
    pods: impl IntoIterator<Item = &'p Pod>,
    namespace: Namespace<&str>,
    labels: &BTreeMap<String, String>,
) -> impl Iterator<Item = &'p Pod> {
    pods.into_iter().filter(move |pod| {
        let own = pod.metadata.labels.as_ref();
        Namespace::of(&pod.metadata) == namespace
            && labels.iter().all(|(key, value)| own.and_then(|own| own.get(key)) == Some(value))
    })
}

/// Returns the first failure of these pods, by the names of the pods.
pub fn first<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<(&'a Pod, PodFailure)> {
    let found = pods.into_iter().filter_map(|pod| Some((pod, failure(pod)?)));
    found.min_by_key(|(pod, _)| pod.metadata.name.as_deref())
}

/// Returns why the pods of a Deployment may not be created, if so.
pub fn refusal(deployment: &Deployment) -> Option<&str> {
    let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut failures = conditions.filter(|found| found.type_ == "ReplicaFailure" && found.status == "True");
    Some(failures.next()?.message.as_deref().unwrap_or_default())
}

/// Returns why a pod is not ready, or `None` if it is ready, starts, or does not tell.
pub fn failure(pod: &Pod) -> Option<PodFailure> {
    if pod.metadata.deletion_timestamp.is_some() || is_ready(pod) {
        return None;
    }
    // Without a node, the containers have no status.
    let unscheduled = conditions(pod).find(|found| is_unscheduled(found));
    if let Some(found) = unscheduled {
        let text = found.message.as_deref().unwrap_or("the scheduler has not chosen a node").to_owned();
        return Some(PodFailure { fault: Fault::Unschedulable, container: None, text });
    }
    let status = pod.status.as_ref()?;
    let initial = status.init_container_statuses.iter().flatten();
    // Containers wait for the init containers, so a failure of one of these is the cause.
    initial.chain(status.container_statuses.iter().flatten()).find_map(of_container)
}

/// Reduces a pod's status to what [`failure`] needs. Nothing is left of a pod without a failure.
pub fn reduced_status(pod: &Pod) -> PodStatus {
    let (Some(failure), Some(status)) = (failure(pod), &pod.status) else { return PodStatus::default() };
    let own = |all: &Option<Vec<ContainerStatus>>| {
        let mut all = all.clone()?;
        all.retain(|found| Some(&found.name) == failure.container.as_ref());
        (!all.is_empty()).then_some(all)
    };
    let unscheduled: Vec<_> = conditions(pod).filter(|found| is_unscheduled(found)).cloned().collect();
    PodStatus {
        conditions: (!unscheduled.is_empty()).then_some(unscheduled),
        init_container_statuses: own(&status.init_container_statuses),
        container_statuses: own(&status.container_statuses),
        ..PodStatus::default()
    }
}

fn conditions(pod: &Pod) -> impl Iterator<Item = &PodCondition> {
    pod.status.iter().flat_map(|status| status.conditions.iter().flatten())
}

fn is_unscheduled(condition: &PodCondition) -> bool {
    condition.type_ == "PodScheduled" && condition.status == "False"
}

fn of_container(container: &ContainerStatus) -> Option<PodFailure> {
    let (name, image) = (&container.name, &container.image);
    let state = container.state.as_ref()?;
    let last = container.last_state.as_ref();
    if let Some(waiting) = &state.waiting {
        let message = waiting.message.as_deref().unwrap_or_default();
        let (fault, text) = match waiting.reason.as_deref().unwrap_or_default() {
            // A container that has failed and starts again counts as failed until it is ready.
            "ContainerCreating" | "PodInitializing" | "" => {
                return failed(last).then(|| container_failure(container, last));
            }
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                (Fault::ImageNotPulled, format!("image {image} cannot be pulled: {message}"))
            }
            "CreateContainerConfigError" | "CreateContainerError" => {
                (Fault::ContainerNotCreated, message.to_owned())
            }
            "CrashLoopBackOff" => return Some(container_failure(container, last)),
            "NoLocalRole" => (Fault::NoLocalProgram, message.to_owned()),
            reason => (Fault::ContainerWaits, format!("{reason}: {message}")),
        };
        return Some(PodFailure::of(fault, container, format!("container {name}: {text}")));
    }
    if state.terminated.is_some() {
        return failed(Some(state)).then(|| container_failure(container, Some(state)));
    }
    (!container.ready && failed(last)).then(|| container_failure(container, last))
}

fn failed(state: Option<&ContainerState>) -> bool {
    state.and_then(|state| state.terminated.as_ref()).is_some_and(|ended| ended.exit_code != 0)
}

/// Returns the failure of a container that ended in this state.
fn container_failure(container: &ContainerStatus, state: Option<&ContainerState>) -> PodFailure {
    let name = &container.name;
    let ended = state.and_then(|state| state.terminated.as_ref());
    let code = ended.map_or(0, |ended| ended.exit_code);
    let reason = ended.and_then(|ended| ended.reason.as_deref()).unwrap_or_default();
    if reason == "OOMKilled" || (code == KILLED && reason.is_empty()) {
        let text = format!("container {name} needs more memory than its limit");
        return PodFailure::of(Fault::OutOfMemory, container, text);
    }
    let restarts = match usize::try_from(container.restart_count).unwrap_or_default() {
        0 => String::new(),
        count => format!(" ({})", counted(count, "restart")),
    };
    let words = ended.and_then(|ended| ended.message.as_deref()).unwrap_or_default();
    let cause = termination::cause(words).map(|line| format!(": {}", cut(&line))).unwrap_or_default();
    let text = format!("container {name} ended with exit code {code}{restarts}{cause}");
    PodFailure::of(Fault::ContainerCrashes, container, text)
}

/// Returns the beginning of a long line.
fn cut(line: &str) -> String {
    match line.char_indices().nth(WORDS_LIMIT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"}, "status": status}))
            .unwrap()
    }

    fn with(state: &Value, last: &Value) -> Pod {
        pod(&json!({
            "podIP": "127.0.0.1",
            "initContainerStatuses": [{"name": "first", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
                "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 2,
                "state": state, "lastState": last}],
        }))
    }

    fn text(pod: &Pod) -> Option<String> {
        // A reduced pod tells the same.
        let reduced = Pod { status: Some(reduced_status(pod)), ..pod.clone() };
        let found = failure(pod);
        assert_eq!(failure(&reduced), found);
        found.map(|found| found.text)
    }

    #[test]
    fn a_container_that_crashed_is_in_trouble_until_it_is_ready() {
        let ended =
            json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "loading\nno such file\n\n"}});
        let crashed = Some("container main ended with exit code 1 (2 restarts): no such file".to_owned());
        for state in [
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}),
            json!({"waiting": {"reason": "ContainerCreating"}}),
            json!({"running": {}}),
        ] {
            assert_eq!(text(&with(&state, &ended)), crashed, "{state}");
        }
        assert_eq!(text(&with(&ended, &json!({}))), crashed);
        let mut ready = with(&json!({"running": {}}), &ended);
        ready.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0].ready = true;
        assert_eq!(text(&ready), None);
        assert_eq!(reduced_status(&ready), PodStatus::default());
        assert_eq!(text(&with(&json!({"running": {}}), &json!({}))), None);
        assert_eq!(text(&with(&json!({"terminated": {"exitCode": 0}}), &json!({}))), None);
    }

    #[test]
    fn a_long_line_is_cut_and_a_pod_without_a_node_says_what_the_scheduler_said() {
        let line = "ü".repeat(2 * WORDS_LIMIT);
        let ended = json!({"terminated": {"exitCode": 2, "message": line}});
        let shortened = text(&with(&ended, &json!({}))).unwrap();
        assert_eq!(shortened.matches('ü').count(), WORDS_LIMIT);
        assert!(shortened.ends_with('…'), "{shortened}");

        let unscheduled =
            json!({"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"});
        let pending = pod(&json!({"conditions": [unscheduled]}));
        assert_eq!(text(&pending).as_deref(), Some("0/1 nodes are available"));
        assert_eq!(failure(&pending).unwrap().sentence(&pending), "pod p: 0/1 nodes are available");
        let mut deleted = pending.clone();
        deleted.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        assert_eq!(text(&deleted), None);
    }
}
