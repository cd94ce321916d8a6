//! The line of a pod. Pure functions.

use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod},
    jiff::Timestamp,
};
use longboat_download::PROGRESS_CONDITION;
use longboat_node::ENGINE_ANNOTATION;
use longboat_plan::{
    counted,
    pods::{failure, is_ready},
};

use super::{Line, Mark, Time};

/// Returns the line of a pod of a service. `complete` is when the rollout of its workload was complete, if it is.
pub(super) fn line(pod: &Pod, service: &str, complete: Option<Timestamp>) -> Line {
    let (text, mark) = pod_text(pod);
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    Line { subject: format!("{service} Pod {name}"), text, mark, depth: 2, time: time(pod, mark, complete) }
}

/// Returns how long the pod took to become ready, or since when it is not ready.
fn time(pod: &Pod, mark: Mark, complete: Option<Timestamp>) -> Option<Time> {
    if let Some(deleted) = &pod.metadata.deletion_timestamp {
        return Some(Time::Since(deleted.0));
    }
    let created = pod.metadata.creation_timestamp.as_ref()?.0;
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    let changed = ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
    if mark != Mark::Good {
        return Some(Time::Since(changed.unwrap_or(created)));
    }
    // A pod that became ready again has served before, so this is not the time that it took to start.
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let restarted = statuses.into_iter().any(|container| container.restart_count > 0);
    let again = complete.is_some_and(|complete| created <= complete && changed > Some(complete));
    if restarted || again {
        return None;
    }
    let took = changed?.duration_since(created);
    took.is_positive().then(|| Time::Took(took.unsigned_abs()))
}

fn pod_text(pod: &Pod) -> (String, Mark) {
    if pod.metadata.deletion_timestamp.is_some() {
        return ("terminating".into(), Mark::Waiting);
    }
    if let Some(failure) = failure(pod) {
        return (failure.text, Mark::Bad);
    }
    let status = pod.status.clone().unwrap_or_default();
    let restarts: i32 =
        status.container_statuses.iter().flatten().map(|container| container.restart_count).sum();
    let restarted = match usize::try_from(restarts).unwrap_or_default() {
        0 => String::new(),
        count => format!(", {}", counted(count, "restart")),
    };
    if is_ready(pod) {
        let address = status.pod_ip.unwrap_or_default();
        // The line names the engine, so that nobody takes an answer of the simulator for a model's.
        let note = pod.metadata.annotations.as_ref().and_then(|all| all.get(ENGINE_ANNOTATION));
        let kind = note.map(|note| note.split(':').next().unwrap_or(note));
        let engine = kind.map(|kind| format!(", engine: {kind}")).unwrap_or_default();
        return (format!("ready at {address}{restarted}{engine}"), Mark::Good);
    }
    let runs =
        |container: &&ContainerStatus| container.state.as_ref().is_some_and(|state| state.running.is_some());
    if let Some(running) = status.init_container_statuses.iter().flatten().find(runs) {
        let progress =
            status.conditions.iter().flatten().find(|condition| condition.type_ == PROGRESS_CONDITION);
        let progress = progress.and_then(|condition| condition.message.as_deref()).unwrap_or("running");
        return (format!("{}: {progress}{restarted}", running.name), Mark::Waiting);
    }
    let phase = status.phase.unwrap_or_else(|| "Pending".into());
    let ready = if lost_readiness(pod) { "no longer ready" } else { "not ready yet" };
    (format!("{phase}, {ready}{restarted}"), Mark::Waiting)
}

/// Returns whether the pod was ready with the containers that run now.
pub(super) fn lost_readiness(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let not_ready = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready" && condition.status == "False");
    let Some(changed) = not_ready.and_then(|ready| ready.last_transition_time.as_ref()) else { return false };
    let mut starts = status.container_statuses.iter().flatten().map(|container| {
        container.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|started| started.0)
    });
    // `Ready` is False from before the containers start. It becomes False again only after it was True.
    !status.container_statuses.iter().flatten().all(|container| container.ready)
        && starts.all(|started| started.is_some_and(|started| started < changed.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_init_container_that_downloads_says_how_far_it_is() {
        let line_of = |conditions: serde_json::Value| {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": "p"},
                "status": {
                    "phase": "Pending",
                    "conditions": conditions,
                    "initContainerStatuses": [{
                        "name": "storage-initializer", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"running": {}},
                    }],
                },
            }))
            .unwrap();
            line(&pod, "ns/a", None).text
        };
        assert_eq!(line_of(json!([])), "storage-initializer: running");
        let progress = json!([{"type": PROGRESS_CONDITION, "status": "False", "reason": "Downloading",
            "message": "downloading 3.2/15.2 GB, 210 MB/s, 57 s left"}]);
        assert_eq!(line_of(progress), "storage-initializer: downloading 3.2/15.2 GB, 210 MB/s, 57 s left");
    }

    #[test]
    fn a_pod_that_stops_answering_probes_does_not_start() {
        let line_of = |changed: &str| {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": changed}],
                    "containerStatuses": [{
                        "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"running": {"startedAt": "2026-01-01T00:00:02Z"}},
                    }],
                },
            }))
            .unwrap();
            line(&pod, "ns/a", None).text
        };
        assert_eq!(line_of("2026-01-01T00:00:00Z"), "Running, not ready yet");
        assert_eq!(line_of("2026-01-01T00:09:00Z"), "Running, no longer ready");
    }

    #[test]
    fn a_time_is_that_of_the_transition_that_a_person_means() {
        let complete = "2026-01-01T00:00:10Z".parse().unwrap();
        let at = |ready: &str, changed: &str| {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": changed}]},
            }))
            .unwrap();
            line(&pod, "ns/a", Some(complete)).time
        };
        let took = |seconds| Some(Time::Took(std::time::Duration::from_secs(seconds)));
        assert_eq!(at("True", "2026-01-01T00:00:08Z"), took(8));
        // A probe failed for a moment, minutes after the start.
        assert_eq!(at("True", "2026-01-01T00:05:39Z"), None);
        let since = Some(Time::Since("2026-01-01T00:05:39Z".parse().unwrap()));
        assert_eq!(at("False", "2026-01-01T00:05:39Z"), since);
    }
}
