//! The tree of a service as lines. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ContainerStatus, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::{
    conditions::{Condition, ConditionStatus, types},
    foreign::leaderworkerset::LeaderWorkerSet,
    labels,
    v1alpha2::LLMInferenceService,
};

use super::{Line, Mark, Place, Seen, group};

/// Conditions in the order of what depends on what; any others follow.
const ORDER: [&str; 8] = [
    types::PRESETS_COMBINED,
    types::WORKLOADS_READY,
    types::MAIN_WORKLOAD_READY,
    types::SCHEDULER_WORKLOAD_READY,
    types::ROUTER_READY,
    types::GATEWAYS_READY,
    types::HTTP_ROUTES_READY,
    types::INFERENCE_POOL_READY,
];

/// What needs metrics or an operator, neither of which a laptop has: a service serves without them.
const BEYOND_A_LAPTOP: [&str; 2] = [types::SCALING_READY, types::PREFILL_SCALING_READY];

/// The conditions that are False whenever one of those is.
const ROLL_UPS: [&str; 2] = [types::READY, types::WORKLOADS_READY];

/// Whether a condition speaks of what a laptop lacks, and not of what is still on its way.
fn is_beyond_a_laptop(condition: &Condition) -> bool {
    BEYOND_A_LAPTOP.contains(&condition.type_.as_str())
        && condition.status == ConditionStatus::False
        && !condition.reason.ends_with("Progressing")
}

/// Names the LeaderWorkerSet of a pod.
const SET_NAME: &str = "leaderworkerset.sigs.k8s.io/name";

/// Lines for these services, `(namespace, name)`, in their order.
pub(crate) fn all(seen: &Seen, names: &[(String, String)], place: Place) -> Vec<Line> {
    let mut lines = Vec::new();
    for (namespace, name) in names {
        let subject = format!("{namespace}/{name}");
        let service = find(seen, namespace, name);
        let Some(service) = service else {
            lines.push(Line { subject, text: "not created yet".into(), mark: Mark::Waiting, depth: 0 });
            continue;
        };
        let conditions = service.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let ready = conditions.iter().find(|condition| condition.type_ == types::READY);
        let (text, news) = match ready {
            Some(_) if is_ready(service) => ("Ready".into(), Mark::Good),
            Some(_) if place == Place::Laptop && serves(service) => {
                ("serves; what cannot run on this machine is marked below".into(), Mark::Good)
            }
            Some(condition) if condition.status != ConditionStatus::True => {
                (describe(condition), worst(conditions))
            }
            // Either nothing was said yet, or it was said of an earlier generation.
            _ => ("waiting for the controller".into(), Mark::Waiting),
        };
        lines.push(Line { subject: subject.clone(), text, mark: news, depth: 0 });
        let mut listed: Vec<_> =
            conditions.iter().filter(|condition| condition.type_ != types::READY).collect();
        listed.sort_by_key(|condition| {
            (
                ORDER.iter().position(|known| *known == condition.type_).unwrap_or(ORDER.len()),
                &condition.type_,
            )
        });
        for condition in listed {
            lines.push(Line {
                subject: format!("{subject} {}", condition.type_),
                text: match condition.status {
                    ConditionStatus::True => "True".into(),
                    _ if place == Place::Laptop && is_beyond_a_laptop(condition) => {
                        format!("cannot run here  {}", describe(condition))
                    }
                    _ => describe(condition),
                },
                mark: mark(condition),
                depth: 1,
            });
        }
        if let Some(url) = service.status.as_ref().and_then(|status| status.url.clone()) {
            lines.push(Line { subject: format!("{subject} url"), text: url, mark: Mark::Good, depth: 1 });
        }
        if let Some(group) = group::of(service) {
            lines.push(Line {
                subject: format!("{subject} group {}", group.name),
                text: group::shares(group),
                mark: Mark::Good,
                depth: 1,
            });
        }
        for deployment in seen.deployments.iter().filter(|object| owned(&object.metadata, service)) {
            self::deployment(seen, deployment, &subject, &mut lines);
        }
        for set in seen.sets.iter().filter(|object| owned(&object.metadata, service)) {
            leader_worker_set(seen, set, &subject, &mut lines);
        }
    }
    lines
}

/// Whether a service says that it is ready, and says so of what was last asked for.
pub(crate) fn is_ready(service: &LLMInferenceService) -> bool {
    service.status.as_ref().is_some_and(|status| {
        Some(status.observed_generation) == service.metadata.generation
            && status
                .conditions
                .iter()
                .any(|condition| condition.type_ == types::READY && condition.status == ConditionStatus::True)
    })
}

/// Whether a service serves as far as it can on this machine: it is ready, but for what no laptop has.
pub(crate) fn serves(service: &LLMInferenceService) -> bool {
    if is_ready(service) {
        return true;
    }
    service.status.as_ref().is_some_and(|status| {
        let missing =
            || status.conditions.iter().filter(|condition| condition.status != ConditionStatus::True);
        Some(status.observed_generation) == service.metadata.generation
            && missing().any(is_beyond_a_laptop)
            && missing().all(|condition| {
                is_beyond_a_laptop(condition) || ROLL_UPS.contains(&condition.type_.as_str())
            })
    })
}

pub(crate) fn find<'a>(seen: &'a Seen, namespace: &str, name: &str) -> Option<&'a LLMInferenceService> {
    let found = seen.services.iter().find(|service| {
        service.metadata.namespace.as_deref() == Some(namespace)
            && service.metadata.name.as_deref() == Some(name)
    });
    found.map(AsRef::as_ref)
}

fn deployment(seen: &Seen, deployment: &Deployment, service: &str, lines: &mut Vec<Line>) {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let subject = format!("{service} Deployment {name}");
    let mark = if ready >= wanted { Mark::Good } else { Mark::Waiting };
    lines.push(Line { subject, text: format!("{ready}/{wanted} ready"), mark, depth: 1 });
    let selector = deployment.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
    pods(seen, &deployment.metadata, selector, service, lines);
}

fn leader_worker_set(seen: &Seen, set: &LeaderWorkerSet, service: &str, lines: &mut Vec<Line>) {
    let name = set.metadata.name.clone().unwrap_or_default();
    let wanted = set.spec.replicas.unwrap_or(1);
    let size = set.spec.leader_worker_template.size.unwrap_or(1);
    let ready = set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let subject = format!("{service} LeaderWorkerSet {name}");
    let mark = if ready >= wanted { Mark::Good } else { Mark::Waiting };
    lines.push(Line { subject, text: format!("{ready}/{wanted} groups of {size} ready"), mark, depth: 1 });
    let selector = BTreeMap::from([(SET_NAME.to_owned(), name)]);
    pods(seen, &set.metadata, Some(&selector), service, lines);
}

fn pods(
    seen: &Seen,
    owner: &ObjectMeta,
    selector: Option<&BTreeMap<String, String>>,
    service: &str,
    lines: &mut Vec<Line>,
) {
    let mut pods: Vec<_> = seen
        .pods
        .iter()
        .filter(|pod| pod.metadata.namespace == owner.namespace)
        .filter(|pod| selects(selector, pod.metadata.labels.as_ref()))
        .collect();
    pods.sort_by_key(|pod| &pod.metadata.name);
    for pod in pods {
        let (text, mark) = pod_text(pod);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        lines.push(Line { subject: format!("{service} Pod {name}"), text, mark, depth: 2 });
    }
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
        return (format!("ready at {address}{restarted}"), Mark::Good);
    }
    let init = status.init_container_statuses.iter().flatten().map(|container| (true, container));
    let main = status.container_statuses.iter().flatten().map(|container| (false, container));
    for (is_init, container) in init.chain(main) {
        if let Some((text, mark)) = trouble(container, is_init) {
            return (format!("{}: {text}{restarted}", container.name), mark);
        }
    }
    let phase = status.phase.unwrap_or_else(|| "Pending".into());
    (format!("{phase}, not ready yet{restarted}"), Mark::Waiting)
}

fn trouble(container: &ContainerStatus, is_init: bool) -> Option<(String, Mark)> {
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.clone().unwrap_or_default();
        let usual = matches!(reason.as_str(), "ContainerCreating" | "PodInitializing" | "");
        let message = waiting.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        return (!usual).then(|| (format!("{reason}{message}"), Mark::Bad));
    }
    if let Some(terminated) = &state.terminated {
        let failed = terminated.exit_code != 0;
        return failed.then(|| (format!("ended with exit code {}", terminated.exit_code), Mark::Bad));
    }
    (is_init && state.running.is_some()).then(|| ("running".into(), Mark::Waiting))
}

fn describe(condition: &Condition) -> String {
    let status = if condition.status == ConditionStatus::False { "False" } else { "Unknown" };
    let parts = [status, condition.reason.as_str(), condition.message.as_str()];
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("  ")
}

fn mark(condition: &Condition) -> Mark {
    match condition.status {
        ConditionStatus::True => Mark::Good,
        // These need the user; anything else may pass.
        ConditionStatus::False if condition.type_ == types::PRESETS_COMBINED => Mark::Bad,
        ConditionStatus::False if condition.reason.ends_with("Error") => Mark::Bad,
        ConditionStatus::False | ConditionStatus::Unknown => Mark::Waiting,
    }
}

/// What a service that is not ready is marked with: as bad, where the cause is.
fn worst(conditions: &[Condition]) -> Mark {
    if conditions.iter().any(|condition| mark(condition) == Mark::Bad) { Mark::Bad } else { Mark::Waiting }
}

fn owned(object: &ObjectMeta, service: &LLMInferenceService) -> bool {
    let uid = service.metadata.uid.as_ref();
    object.owner_references.iter().flatten().any(|owner| Some(&owner.uid) == uid)
        && object.labels.as_ref().is_some_and(|all| all.contains_key(labels::PART_OF))
}

fn selects(selector: Option<&BTreeMap<String, String>>, labels: Option<&BTreeMap<String, String>>) -> bool {
    selector.is_some_and(|selector| {
        selector.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn seen() -> Seen {
        let object = |value| serde_json::from_value(value).unwrap();
        Seen {
            services: vec![Arc::new(serde_json::from_value(json!({
                "metadata": {"name": "qwen", "namespace": "default", "uid": "u", "generation": 2},
                "spec": {"model": {"uri": "hf://a/b"}},
                "status": {"observedGeneration": 1, "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "WorkloadsReady", "status": "False", "reason": "Progressing"},
                    {"type": "PresetsCombined", "status": "True"},
                ]},
            })).unwrap())],
            deployments: vec![Arc::new(object(json!({
                "metadata": {"name": "qwen-kserve", "namespace": "default", "labels": {labels::PART_OF: "x"},
                    "ownerReferences": [{"apiVersion": "x", "kind": "y", "name": "qwen", "uid": "u"}]},
                "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {}},
                "status": {"readyReplicas": 1},
            })))],
            sets: Vec::new(),
            pods: vec![Arc::new(serde_json::from_value(json!({
                "metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}},
                "status": {"containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}]},
            })).unwrap())],
        }
    }

    #[test]
    fn conditions_workloads_and_pods_hang_under_their_service() {
        let names = [("default".to_owned(), "qwen".to_owned()), ("default".to_owned(), "other".to_owned())];
        let lines = all(&seen(), &names, Place::Laptop);
        let texts: Vec<_> = lines.iter().map(|line| (line.depth, line.text.as_str(), line.mark)).collect();
        assert_eq!(
            texts,
            [
                // Ready was said of an earlier generation.
                (0, "waiting for the controller", Mark::Waiting),
                (1, "True", Mark::Good),
                (1, "False  Progressing", Mark::Waiting),
                (1, "1/2 ready", Mark::Waiting),
                (2, "main: CrashLoopBackOff: back-off, 3 restarts", Mark::Bad),
                (0, "not created yet", Mark::Waiting),
            ]
        );
    }

    #[test]
    fn a_service_that_only_lacks_an_autoscaler_serves_and_the_tree_says_what_cannot_run() {
        let mut seen = seen();
        let with = |conditions: serde_json::Value| {
            Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"name": "qwen", "namespace": "default", "uid": "u", "generation": 2},
                    "spec": {"model": {"uri": "hf://a/b"}},
                    "status": {"observedGeneration": 2, "conditions": conditions},
                }))
                .unwrap(),
            )
        };
        let mut conditions = json!([
            {"type": "Ready", "status": "False"},
            {"type": "WorkloadsReady", "status": "False"},
            {"type": "RouterReady", "status": "True"},
            {"type": "ScalingReady", "status": "False", "reason": "FailedGetExternalMetric", "message": "none"},
        ]);
        seen.services = vec![with(conditions.clone())];
        assert!(serves(&seen.services[0]) && !is_ready(&seen.services[0]));
        let lines = all(&seen, &[("default".to_owned(), "qwen".to_owned())], Place::Laptop);
        let scaling = lines.iter().find(|line| line.subject.ends_with("ScalingReady")).unwrap();
        assert_eq!(scaling.text, "cannot run here  False  FailedGetExternalMetric  none");
        conditions[2]["status"] = json!("False");
        assert!(!serves(&with(conditions.clone())));
        let marked = |conditions: &serde_json::Value| {
            let seen = Seen { services: vec![with(conditions.clone())], ..self::seen() };
            all(&seen, &[("default".to_owned(), "qwen".to_owned())], Place::Laptop)[0].mark
        };
        assert_eq!(marked(&conditions), Mark::Waiting);
        // Nobody but the user gets it any further.
        conditions[2]["reason"] = json!("ReconcileError");
        assert_eq!(marked(&conditions), Mark::Bad);
        conditions[2]["status"] = json!("True");
        conditions[3]["reason"] = json!("HPAProgressing");
        assert!(!serves(&with(conditions)), "nothing is known of the autoscaler yet");
    }

    #[test]
    fn groups_show_the_pods_of_their_set() {
        let mut seen = seen();
        seen.sets = vec![Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "qwen-mn", "namespace": "default", "labels": {labels::PART_OF: "x"},
                    "ownerReferences": [{"apiVersion": "x", "kind": "y", "name": "qwen", "uid": "u"}]},
                "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {}}},
                "status": {"readyReplicas": 1},
            }))
            .unwrap(),
        )];
        seen.pods = vec![Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "qwen-mn-0", "namespace": "default", "labels": {SET_NAME: "qwen-mn"}},
                "status": {"podIP": "127.64.0.2", "conditions": [{"type": "Ready", "status": "True"}]},
            }))
            .unwrap(),
        )];
        let lines = all(&seen, &[("default".to_owned(), "qwen".to_owned())], Place::Laptop);
        let texts: Vec<_> = lines.iter().rev().take(2).map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["ready at 127.64.0.2", "1/1 groups of 2 ready"]);
    }
}
