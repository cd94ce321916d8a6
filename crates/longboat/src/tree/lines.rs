//! The tree of a service as lines. Pure functions.

use std::{cell::LazyCell, collections::BTreeMap};

use longboat_api::{
    conditions::{Condition, ConditionStatus, types},
    names::SERVICE_FINALIZER,
    shared_picker::{PICKER, SHARED},
    v1alpha2::LLMInferenceService,
};
use longboat_key::{Key, Name, Namespace};
use longboat_plan::pods::{first, refusal};

use super::{
    Environment, Line, Mark, Time, TreeObjects,
    conditions::{causes, is_ready, mark, reason_and_message, serves, step, worst},
    group, pods,
    workloads::{Index, Owner, Workload},
};

/// Returns the lines of these services, in their order: one line for each object, and another for each
/// further reason why a service is not ready.
pub(crate) fn all(seen: &TreeObjects, names: &[Key], environment: Environment) -> Vec<Line> {
    let mut lines = Vec::new();
    let index = Index::of(seen);
    for key in names {
        let subject = key.to_string();
        let Some(service) = find(seen, key) else {
            let text = "not created yet".to_owned();
            lines.push(Line::new(subject, text, Mark::Waiting, 0));
            continue;
        };
        let workloads = index.workloads(service);
        let mut causes = causes(service, environment).into_iter();
        lines.push(head(service, &subject, environment, &mut causes, &workloads));
        for condition in causes {
            let beyond = environment == Environment::Laptop && condition.is_beyond_a_laptop();
            let text = if beyond {
                format!("cannot run here: {}", reason_and_message(condition))
            } else {
                reason_and_message(condition)
            };
            lines.push(Line::new(format!("{subject} {}", condition.type_), text, mark(condition), 1));
        }
        if let Some(group) = group::of(service) {
            let subject = format!("{subject} group {}", group.name);
            lines.push(Line::new(subject, group::shares(group), Mark::Good, 1));
        }
        for found in &workloads {
            lines.push(workload(found, &subject));
            let complete = found.completed_at();
            lines.extend(found.pods.iter().map(|pod| pods::line(pod, &subject, complete)));
        }
    }
    lines
}

/// Returns the lines of these services without the lines below them.
pub(crate) fn heads(seen: &TreeObjects, names: &[Key], environment: Environment) -> Vec<Line> {
    let by_name: BTreeMap<_, _> =
        seen.services.iter().map(|found| (Key::of(found.as_ref()), found)).collect();
    // If all services work, nobody needs it.
    let index = LazyCell::new(|| Index::of(seen));
    let line = |key: &Key| {
        let service = by_name.get(key)?;
        let mut causes = causes(service, environment).into_iter();
        let subject = key.to_string();
        // What works needs no cause, and looking for one reads all pods, for each of perhaps a thousand services.
        let works = is_ready(service) || environment == Environment::Laptop && serves(service);
        let workloads = if works { Vec::new() } else { index.workloads(service) };
        Some(head(service, &subject, environment, &mut causes, &workloads))
    };
    names.iter().filter_map(line).collect()
}

/// Returns the line of a service. If the service is not ready, the line has the first cause.
fn head<'a>(
    service: &LLMInferenceService,
    subject: &str,
    environment: Environment,
    causes: &mut impl Iterator<Item = &'a Condition>,
    workloads: &[Workload<'_>],
) -> Line {
    let conditions = service.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let ready = conditions.iter().find(|condition| condition.type_ == types::READY);
    let with_address = |text: &str| match address(service) {
        Some(address) => format!("{text}  {address}"),
        None => text.to_owned(),
    };
    let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let (text, mark, since) = match ready {
        // It may be Ready until its pods are gone.
        _ if service.metadata.deletion_timestamp.is_some() => {
            let deleted = service.metadata.deletion_timestamp.as_ref().map(|time| time.0);
            (deletion(service), Mark::Waiting, deleted)
        }
        Some(_) if is_ready(service) => (with_address("Ready"), Mark::Good, None),
        Some(_) if environment == Environment::Laptop && serves(service) => (
            with_address("serves requests; parts that cannot run on this machine are marked below"),
            Mark::Good,
            None,
        ),
        Some(ready) if ready.status != ConditionStatus::True => {
            let changed = ready.last_transition_time.as_ref().map(|time| time.0);
            let cause = causes.next();
            // A service that cannot be composed has no new pods, so the old ones are not the cause.
            let is_behind_pods = cause.is_none_or(|cause| mark(cause) != Mark::Bad);
            if let Some(text) = first_cause(workloads).filter(|_| is_behind_pods) {
                (text, Mark::Bad, changed.or(created))
            } else {
                let text =
                    cause.map_or_else(|| reason_and_message(ready), |cause| progress(cause, workloads));
                (text, worst(conditions), changed.or(created))
            }
        }
        // There is no status yet, or the status describes an earlier generation.
        _ => ("waiting for the controller".into(), Mark::Waiting, created),
    };
    Line { subject: subject.to_owned(), text, mark, depth: 0, time: since.map(Time::Since) }
}

/// Returns what the deletion of a service waits for.
fn deletion(service: &LLMInferenceService) -> String {
    let finalizers = service.metadata.finalizers.iter().flatten();
    let waits: Vec<String> = finalizers
        .map(|finalizer| match finalizer.as_str() {
            SERVICE_FINALIZER => "the controller".to_owned(),
            "foregroundDeletion" => "the deletion of its children".to_owned(),
            "orphan" => "the release of its children".to_owned(),
            other => format!("finalizer {other}"),
        })
        .collect();
    match waits.as_slice() {
        [] => "being deleted".to_owned(),
        _ => format!("being deleted; waits for {}", waits.join(" and ")),
    }
}

/// Returns why the pods of these workloads do not start, in the words of the doctor.
fn first_cause(workloads: &[Workload<'_>]) -> Option<String> {
    workloads.iter().find_map(|workload| {
        let refusal = match workload.object {
            Owner::Deployment(found) => refusal(found).filter(|refusal| !refusal.is_empty()),
            Owner::Group(_) => None,
        };
        refusal.map(ToOwned::to_owned).or_else(|| {
            let (pod, trouble) = first(workload.pods.iter().copied())?;
            Some(trouble.sentence(pod))
        })
    })
}

/// Returns the text of a condition, or how many pods are ready if the condition only says that too few are.
fn progress(condition: &Condition, workloads: &[Workload<'_>]) -> String {
    let pods: Vec<_> = workloads.iter().flat_map(|workload| &workload.pods).collect();
    if condition.reason != "MinimumReplicasUnavailable" || pods.is_empty() {
        return step(condition);
    }
    let ready = pods.iter().filter(|pod| longboat_plan::pods::is_ready(pod)).count();
    let lost = pods.iter().any(|pod| super::pods::lost_readiness(pod));
    let what = if lost { "pods are no longer ready" } else { "pods start" };
    format!("{what}: {ready} of {} ready", pods.len())
}

/// Returns the address of a service.
fn address(service: &LLMInferenceService) -> Option<&str> {
    let status = service.status.as_ref()?;
    let url = status.url.as_deref().filter(|url| !url.is_empty());
    url.or_else(|| status.addresses.first()?.url.as_deref())
}

pub(crate) fn find<'a>(seen: &'a TreeObjects, key: &Key) -> Option<&'a LLMInferenceService> {
    let found = seen.services.iter().find(|service| {
        let metadata = &service.metadata;
        Namespace::of(metadata) == key.namespace.as_deref() && Name::of(metadata) == key.name.as_deref()
    });
    found.map(AsRef::as_ref)
}

/// Returns the line of a workload.
fn workload(workload: &Workload<'_>, service: &str) -> Line {
    let (kind, name, ready, desired, text) = match workload.object {
        Owner::Deployment(found) => {
            let desired = found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            let ready = found.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
            let labels = found.metadata.labels.as_ref();
            let is_shared = labels.and_then(|labels| labels.get(PICKER)).is_some_and(|value| value == SHARED);
            let text = match desired {
                0 if is_shared => "no pods: the shared picker picks".to_owned(),
                _ => format!("{ready}/{desired} ready"),
            };
            ("Deployment", &found.metadata.name, ready, desired, text)
        }
        Owner::Group(found) => {
            let desired = found.spec.replicas.unwrap_or(1);
            let size = found.spec.leader_worker_template.size.unwrap_or(1);
            let ready = found.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
            let text = format!("{ready}/{desired} groups of {size} ready");
            ("LeaderWorkerSet", &found.metadata.name, ready, desired, text)
        }
    };
    let subject = format!("{service} {kind} {}", name.as_deref().unwrap_or_default());
    Line::new(subject, text, if ready >= desired { Mark::Good } else { Mark::Waiting }, 1)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use longboat_api::labels;
    use serde_json::json;

    use super::*;

    fn service(conditions: &serde_json::Value) -> Arc<LLMInferenceService> {
        let service = json!({
            "metadata": {"name": "qwen", "namespace": "default", "uid": "u", "generation": 2},
            "spec": {"model": {"uri": "hf://a/b"}},
            "status": {"observedGeneration": 2, "conditions": conditions},
        });
        Arc::new(serde_json::from_value(service).unwrap())
    }

    fn seen() -> TreeObjects {
        let object = |value| serde_json::from_value(value).unwrap();
        TreeObjects {
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
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                    "lastState": {"terminated": {"exitCode": 1, "message": "loading\nno such file\n\n"}}}]},
            })).unwrap())],
        }
    }

    #[test]
    fn conditions_workloads_and_pods_hang_under_their_service() {
        let names =
            [Key::new(Namespace("default"), Name("qwen")), Key::new(Namespace("default"), Name("other"))];
        let lines = all(&seen(), &names, Environment::Laptop);
        let texts: Vec<_> = lines.iter().map(|line| (line.depth, line.text.as_str(), line.mark)).collect();
        assert_eq!(
            texts,
            [
                // Ready describes an earlier generation.
                (0, "waiting for the controller", Mark::Waiting),
                (1, "Progressing", Mark::Waiting),
                (1, "1/2 ready", Mark::Waiting),
                (2, "container main ended with exit code 1 (3 restarts): no such file", Mark::Bad),
                (0, "not created yet", Mark::Waiting),
            ]
        );
    }

    #[test]
    fn a_service_that_is_deleted_says_what_it_waits_for() {
        let text_with = |finalizers: &[&str]| {
            let mut going =
                LLMInferenceService::clone(&service(&json!([{"type": "Ready", "status": "True"}])));
            going.metadata.generation = Some(3);
            going.metadata.deletion_timestamp =
                Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
            going.metadata.finalizers = Some(finalizers.iter().map(|&name| name.to_owned()).collect());
            let seen = TreeObjects { services: vec![Arc::new(going)], ..TreeObjects::default() };
            heads(&seen, &[Key::new(Namespace("default"), Name("qwen"))], Environment::Cluster)[0]
                .text
                .clone()
        };
        let other = "example.com/hold";
        assert_eq!(text_with(&[other]), "being deleted; waits for finalizer example.com/hold");
        assert_eq!(
            text_with(&["foregroundDeletion"]),
            "being deleted; waits for the deletion of its children"
        );
        assert_eq!(
            text_with(&[SERVICE_FINALIZER, other]),
            "being deleted; waits for the controller and finalizer example.com/hold"
        );
    }

    #[test]
    fn a_service_that_only_lacks_an_autoscaler_serves_and_the_tree_says_what_cannot_run() {
        let mut seen = seen();
        let mut conditions = json!([
            {"type": "Ready", "status": "False"},
            {"type": "WorkloadsReady", "status": "False"},
            {"type": "RouterReady", "status": "True"},
            {"type": "ScalingReady", "status": "False", "reason": "FailedGetExternalMetric", "message": "none"},
        ]);
        seen.services = vec![service(&conditions)];
        assert!(serves(&seen.services[0]) && !is_ready(&seen.services[0]));
        let lines = all(&seen, &[Key::new(Namespace("default"), Name("qwen"))], Environment::Laptop);
        let scaling = lines.iter().find(|line| line.subject.ends_with("ScalingReady")).unwrap();
        assert_eq!(scaling.text, "cannot run here: FailedGetExternalMetric: none");
        conditions[2]["status"] = json!("False");
        assert!(!serves(&service(&conditions)));
        let marked = |conditions: &serde_json::Value| {
            // A crashed pod would be the cause.
            let seen = TreeObjects { services: vec![service(conditions)], pods: Vec::new(), ..self::seen() };
            all(&seen, &[Key::new(Namespace("default"), Name("qwen"))], Environment::Laptop)[0].mark
        };
        assert_eq!(marked(&conditions), Mark::Waiting);
        // Only the user can resolve this.
        conditions[2]["reason"] = json!("ReconcileError");
        assert_eq!(marked(&conditions), Mark::Bad);
        conditions[2]["status"] = json!("True");
        conditions[3]["reason"] = json!("MetricAnnotationError");
        assert!(!serves(&service(&conditions)), "that is a mistake of its writer");
        assert_eq!(marked(&conditions), Mark::Bad);
        conditions[3]["reason"] = json!("HPAProgressing");
        assert!(!serves(&service(&conditions)), "nothing is known of the autoscaler yet");
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
                "metadata": {"name": "qwen-mn-0", "namespace": "default", "labels": {"leaderworkerset.sigs.k8s.io/name": "qwen-mn"},
                    "creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"podIP": "127.64.0.2", "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:03Z"},
                ]},
            }))
            .unwrap(),
        )];
        let lines = all(&seen, &[Key::new(Namespace("default"), Name("qwen"))], Environment::Laptop);
        let last: Vec<_> = lines.iter().rev().take(2).map(|line| (line.text.as_str(), line.time)).collect();
        let took = Some(Time::Took(Duration::from_secs(3)));
        assert_eq!(last, [("ready at 127.64.0.2", took), ("1/1 groups of 2 ready", None)]);
    }

    #[test]
    fn a_healthy_service_is_one_line_with_its_address() {
        let names = [Key::new(Namespace("default"), Name("qwen"))];
        let of = |status: serde_json::Value| {
            let service = json!({
                "metadata": {"name": "qwen", "namespace": "default", "uid": "u", "generation": 1},
                "spec": {"model": {"uri": "hf://a/b"}}, "status": status,
            });
            let services = vec![Arc::new(serde_json::from_value(service).unwrap())];
            let lines =
                all(&TreeObjects { services, ..TreeObjects::default() }, &names, Environment::Cluster);
            lines.into_iter().map(|line| (line.depth, line.text, line.mark)).collect::<Vec<_>>()
        };
        let mut status = json!({
            "observedGeneration": 1, "url": "http://gw/default/qwen",
            "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "MainWorkloadReady", "status": "True"},
                {"type": "RouterReady", "status": "True"},
            ],
        });
        assert_eq!(of(status.clone()), [(0, "Ready  http://gw/default/qwen".to_owned(), Mark::Good)]);
        // Without a route, the service answers at its Service.
        status["url"] = json!(null);
        status["addresses"] = json!([{"url": "http://qwen.default.svc"}]);
        assert_eq!(of(status.clone()), [(0, "Ready  http://qwen.default.svc".to_owned(), Mark::Good)]);
        // For this condition, True is the problem.
        status["conditions"].as_array_mut().unwrap().push(
            json!({"type": "GroupDegraded", "status": "True", "reason": "MemberDivergence", "message": "b differs"}),
        );
        assert_eq!(of(status.clone())[1], (1, "MemberDivergence: b differs".to_owned(), Mark::Bad));
        // It picks, and requests are lost.
        status["conditions"][3] = json!(
            {"type": "SchedulerWorkloadReady", "status": "True", "reason": "SharedPickerLimited", "message": "at most 8"}
        );
        assert_eq!(of(status.clone())[1], (1, "SharedPickerLimited: at most 8".to_owned(), Mark::Bad));
        status["conditions"][3]["reason"] = json!("PickerNeedsPod");
        assert_eq!(of(status).len(), 1);
    }

    #[test]
    fn the_first_cause_stands_beside_the_service_and_each_reason_once() {
        let conditions = json!([
            {"type": "Ready", "status": "False", "reason": "Unavailable", "message": "no pods",
             "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "WorkloadsReady", "status": "False", "reason": "Unavailable", "message": "no pods"},
            {"type": "MainWorkloadReady", "status": "False", "reason": "Unavailable", "message": "no pods"},
            {"type": "RouterReady", "status": "False", "reason": "RouteMissing", "message": "no route"},
            {"type": "HTTPRoutesReady", "status": "False", "reason": "RouteMissing", "message": "no route"},
            {"type": "InferencePoolReady", "status": "Unknown"},
        ]);
        let seen = TreeObjects { services: vec![service(&conditions)], ..TreeObjects::default() };
        let lines = all(&seen, &[Key::new(Namespace("default"), Name("qwen"))], Environment::Cluster);
        let texts: Vec<_> = lines.iter().map(|line| format!("{}: {}", line.subject, line.text)).collect();
        assert_eq!(
            texts,
            [
                "default/qwen: MainWorkloadReady=False Unavailable: no pods",
                "default/qwen HTTPRoutesReady: RouteMissing: no route",
                "default/qwen InferencePoolReady: ",
            ]
        );
        let since = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(lines[0].time, Some(Time::Since(since)));
    }

    #[test]
    fn a_service_whose_pods_crash_is_broken_and_says_why_in_its_first_line() {
        let mut seen = seen();
        let conditions = json!([
            {"type": "Ready", "status": "False"}, {"type": "WorkloadsReady", "status": "False"},
            {"type": "MainWorkloadReady", "status": "False", "reason": "MinimumReplicasUnavailable",
             "message": "Deployment does not have minimum availability."},
        ]);
        let names = [Key::new(Namespace("default"), Name("qwen"))];
        let cause = "pod p: container main ended with exit code 1 (3 restarts): no such file";
        seen.services = vec![service(&conditions)];
        for line in
            [&heads(&seen, &names, Environment::Laptop)[0], &all(&seen, &names, Environment::Cluster)[0]]
        {
            assert_eq!((line.text.as_str(), line.mark), (cause, Mark::Bad));
        }
        let crashing = std::mem::replace(
            &mut seen.pods,
            vec![Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}},
                    "status": {"phase": "Pending"},
                }))
                .unwrap(),
            )],
        );
        let starting = &heads(&seen, &names, Environment::Laptop)[0];
        assert_eq!((starting.text.as_str(), starting.mark), ("pods start: 0 of 1 ready", Mark::Waiting));
        seen.pods = vec![Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}},
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:09:00Z"}],
                    "containerStatuses": [{
                        "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"running": {"startedAt": "2026-01-01T00:00:02Z"}},
                    }],
                },
            }))
            .unwrap(),
        )];
        let hangs = &heads(&seen, &names, Environment::Laptop)[0];
        assert_eq!(hangs.text, "pods are no longer ready: 0 of 1 ready");
        seen.pods = crashing;
        // What cannot be composed comes first.
        let mut refused = conditions;
        let combined = json!({"type": "PresetsCombined", "status": "False", "reason": "ConfigNotFound"});
        refused.as_array_mut().unwrap().push(combined);
        seen.services = vec![service(&refused)];
        assert_eq!(heads(&seen, &names, Environment::Laptop)[0].text, "PresetsCombined=False ConfigNotFound");
    }
}
