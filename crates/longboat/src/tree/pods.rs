//! The line of a pod. Pure functions.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};

use longboat_download::PROGRESS_CONDITION;
use longboat_node::ENGINE_ANNOTATION;

use super::{Line, Mark, Time};

/// Returns the line of a pod of a service.
pub(super) fn line(pod: &Pod, service: &str) -> Line {
    let (text, mark) = pod_text(pod);
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    Line { subject: format!("{service} Pod {name}"), text, mark, depth: 2, time: time(pod, mark) }
}

/// Returns how long the pod took to become ready, or has waited so far.
fn time(pod: &Pod, mark: Mark) -> Option<Time> {
    if let Some(deleted) = &pod.metadata.deletion_timestamp {
        return Some(Time::Since(deleted.0));
    }
    let created = pod.metadata.creation_timestamp.as_ref()?.0;
    if mark != Mark::Good {
        return Some(Time::Since(created));
    }
    let status = pod.status.as_ref()?;
    // For a pod with restarts, this time has no meaning.
    if status.container_statuses.iter().flatten().any(|container| container.restart_count > 0) {
        return None;
    }
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready")?;
    let took = ready.last_transition_time.as_ref()?.0.duration_since(created);
    took.is_positive().then(|| Time::Took(took.unsigned_abs()))
}

fn pod_text(pod: &Pod) -> (String, Mark) {
    if pod.metadata.deletion_timestamp.is_some() {
        return ("terminating".into(), Mark::Waiting);
    }
    let status = pod.status.clone().unwrap_or_default();
    let ready = status
        .conditions
        .iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let restarts: i32 =
        status.container_statuses.iter().flatten().map(|container| container.restart_count).sum();
    let restarted = if restarts > 0 { format!(", {restarts} restarts") } else { String::new() };
    if ready {
        let address = status.pod_ip.unwrap_or_default();
        // The line names the engine, so that nobody takes an answer of the simulator for a model's.
        let note = pod.metadata.annotations.as_ref().and_then(|all| all.get(ENGINE_ANNOTATION));
        let kind = note.map(|note| note.split(':').next().unwrap_or(note));
        let engine = kind.map(|kind| format!(", engine: {kind}")).unwrap_or_default();
        return (format!("ready at {address}{restarted}{engine}"), Mark::Good);
    }
    let init = status.init_container_statuses.iter().flatten().map(|container| (true, container));
    let main = status.container_statuses.iter().flatten().map(|container| (false, container));
    let progress = status.conditions.iter().flatten().find(|condition| condition.type_ == PROGRESS_CONDITION);
    let progress = progress.and_then(|condition| condition.message.as_deref());
    for (is_init, container) in init.chain(main) {
        if let Some((text, mark)) = trouble(container, is_init, progress) {
            return (format!("{}: {text}{restarted}", container.name), mark);
        }
    }
    let phase = status.phase.unwrap_or_else(|| "Pending".into());
    (format!("{phase}, not ready yet{restarted}"), Mark::Waiting)
}

/// Returns why a container is not ready. `progress` is the progress of an init container, if it is known.
fn trouble(container: &ContainerStatus, is_init: bool, progress: Option<&str>) -> Option<(String, Mark)> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.clone().unwrap_or_default();
        let before = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        if let (true, Some(ended)) = (reason == "CrashLoopBackOff", before) {
            return Some((format!("{reason}: {}", how_it_ended(ended)), Mark::Bad));
        }
        let usual = matches!(reason.as_str(), "ContainerCreating" | "PodInitializing" | "");
        let message = waiting.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        return (!usual).then(|| (format!("{reason}{message}"), Mark::Bad));
    }
    if let Some(terminated) = &state.terminated {
        let failed = terminated.exit_code != 0;
        return failed.then(|| (how_it_ended(terminated), Mark::Bad));
    }
    (is_init && state.running.is_some()).then(|| (progress.unwrap_or("running").to_owned(), Mark::Waiting))
}

/// Returns the exit code of a container, and the last line of its termination message.
fn how_it_ended(ended: &ContainerStateTerminated) -> String {
    let message = ended.message.as_deref().unwrap_or_default();
    let last = message.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let last = last.map(|line| format!(": {line}")).unwrap_or_default();
    format!("ended with exit code {}{last}", ended.exit_code)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_init_container_that_downloads_says_how_far_it_is() {
        let said = |conditions: serde_json::Value| {
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
            line(&pod, "ns/a").text
        };
        assert_eq!(said(json!([])), "storage-initializer: running");
        let progress = json!([{"type": PROGRESS_CONDITION, "status": "False", "reason": "Downloading",
            "message": "downloading 3.2/15.2 GB, 210 MB/s, 57 s left"}]);
        assert_eq!(said(progress), "storage-initializer: downloading 3.2/15.2 GB, 210 MB/s, 57 s left");
    }
}
