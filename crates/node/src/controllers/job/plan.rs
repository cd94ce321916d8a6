//! Decides what to do about a job: a pure function of the job and its pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{ContainerStatus, EnvVar, Pod};
use kube::ResourceExt;
use longboat_key::names::GENERATED_ALPHABET;
use sha2::{Digest, Sha256};

use super::end::{decided, failure, holds, success};
use super::until;
use crate::controllers::owners::control_by;
use crate::controllers::pods::{from_template, has_ended, is_active, phase, ready_since};
use crate::controllers::replicaset::removal_rank;
use crate::controllers::writes::now;

/// The wait before a failed pod is replaced. It doubles with each failure.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_mins(6);
/// The most pods that one reconcile of a job creates.
pub(super) const MAX_POD_CREATIONS: usize = 100;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The actions for a job.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// The numbers of the pods to create.
    pub(super) create: Vec<Number>,
    /// The pods to delete.
    pub(super) delete: Vec<Arc<Pod>>,
    pub(super) status: JobStatus,
    /// The time until the next reconcile.
    pub(super) again: Option<Duration>,
}

/// The identity of a pod of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number {
    /// The completion index of an indexed job.
    index: Option<i32>,
    /// Distinguishes the pods of the job, or of the index.
    attempt: usize,
}

impl Number {
    fn name(self, job: &Job) -> String {
        let seed = format!("{}/{:?}/{}", job.uid().unwrap_or_default(), self.index, self.attempt);
        let digest = Sha256::digest(seed.as_bytes());
        let suffix: String = digest
            .iter()
            .take(5)
            .map(|byte| char::from(GENERATED_ALPHABET[usize::from(*byte) % GENERATED_ALPHABET.len()]))
            .collect();
        match self.index {
            Some(index) => format!("{}-{index}-{suffix}", job.name_any()),
            None => format!("{}-{suffix}", job.name_any()),
        }
    }
}

fn index_of(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX)?.parse().ok()
}

pub(super) fn plan(job: &Job, pods: &[Arc<Pod>], at: Timestamp) -> Plan {
    let spec = job.spec.clone().unwrap_or_default();
    let before = job.status.clone().unwrap_or_default();
    let is_suspended = spec.suspend == Some(true);
    let mut active: Vec<Arc<Pod>> = pods.iter().filter(|pod| is_active(pod)).cloned().collect();
    let terminating = pods.iter().filter(|pod| !has_ended(pod) && !is_active(pod)).count();
    // The end of a pod that is deleted says nothing about its work: a job that is suspended deletes its pods, too.
    let mut kept = pods.to_vec();
    kept.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    let done = completed_indexes(&spec, &before, &kept);
    let count = |wanted: &str| number(kept.iter().filter(|pod| phase(pod) == wanted).count());
    let succeeded = match &done {
        Some(done) => number(done.len()),
        // Deleted pods still count.
        None => count("Succeeded").max(before.succeeded.unwrap_or(0)),
    };
    let failed = count("Failed").max(before.failed.unwrap_or(0));
    let is_resumed = holds(&before, "Suspended") && !is_suspended;
    let started = before.start_time.clone().filter(|_| !is_resumed);
    let mut status = JobStatus {
        completed_indexes: done.as_ref().map(ranges).filter(|text| !text.is_empty()),
        start_time: started.or_else(|| (!is_suspended).then(now)),
        conditions: before.conditions.clone(),
        ..JobStatus::default()
    };
    let deadline = spec.active_deadline_seconds.filter(|_| !is_suspended).zip(status.start_time.clone());
    let left = deadline.map(|(seconds, since)| until(since.0, seconds, at));
    let end = decided(&status)
        .or_else(|| failure(&spec, pods, failed, left == Some(None)))
        .or_else(|| success(&spec, succeeded, active.len()));
    let mut plan = Plan::default();
    let mut counted = failed;
    if let Some(end) = &end {
        let is_new = set(&mut status, end.target, "True", &end.reason, &end.message);
        if is_new && end.condition == "Failed" {
            // What still runs counts as failed.
            counted += number(active.len());
        }
        plan.delete = std::mem::take(&mut active);
        if terminating + plan.delete.len() == 0 {
            set(&mut status, end.condition, "True", &end.reason, &end.message);
            status.completion_time = (end.condition == "Complete").then(now);
        }
    } else if is_suspended {
        set(&mut status, "Suspended", "True", "JobSuspended", "Job suspended");
        plan.delete = std::mem::take(&mut active);
    } else {
        if is_resumed {
            set(&mut status, "Suspended", "False", "JobResumed", "Job resumed");
        }
        let wanted = wanted(&spec, succeeded, active.len());
        active.sort_by_cached_key(|pod| removal_rank(pod));
        plan.delete = active.drain(..active.len().saturating_sub(wanted)).collect();
        let wait = backoff(&kept, at);
        // As in Kubernetes, one reconcile either deletes or creates.
        if plan.delete.is_empty() && wait.is_none() {
            let replaced =
                if spec.pod_replacement_policy.as_deref() == Some("Failed") { terminating } else { 0 };
            let more = wanted.saturating_sub(active.len() + replaced);
            plan.create = missing(&spec, job, pods, done.as_ref(), more);
        }
        plan.again = wait.into_iter().chain(left.flatten()).min();
    }
    let ready = active.iter().filter(|pod| ready_since(pod).is_some()).count();
    let positive = |count: i32| Some(count).filter(|count| *count > 0);
    plan.status = JobStatus {
        active: positive(number(active.len())),
        ready: Some(number(ready)),
        succeeded: positive(succeeded),
        failed: positive(counted),
        terminating: Some(number(terminating + plan.delete.len())),
        ..status
    };
    plan
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Returns the indexes of an indexed job for which a pod has succeeded, including pods that are deleted by now.
fn completed_indexes(spec: &JobSpec, before: &JobStatus, pods: &[Arc<Pod>]) -> Option<BTreeSet<i32>> {
    if spec.completion_mode.as_deref() != Some("Indexed") {
        return None;
    }
    let known = before.completed_indexes.as_deref().unwrap_or_default().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<i32>().ok()?..=last.parse().ok()?)
    });
    let new = pods.iter().filter(|pod| phase(pod) == "Succeeded").filter_map(|pod| index_of(pod));
    let completions = spec.completions.unwrap_or(0);
    Some(known.flatten().chain(new).filter(|index| *index < completions).collect())
}

/// Returns how many pods should run.
fn wanted(spec: &JobSpec, succeeded: i32, active: usize) -> usize {
    let parallelism = spec.parallelism.unwrap_or(1);
    let wanted = match spec.completions {
        Some(completions) => parallelism.min(completions - succeeded),
        // One of them has succeeded, which means that the work queue is empty: the others finish.
        None if succeeded > 0 => return active,
        None => parallelism,
    };
    usize::try_from(wanted).unwrap_or(0)
}

/// Returns the numbers of `wanted` pods to create, but not many more than one reconcile creates.
fn missing(
    spec: &JobSpec,
    job: &Job,
    pods: &[Arc<Pod>],
    done: Option<&BTreeSet<i32>>,
    wanted: usize,
) -> Vec<Number> {
    // One more than are created, so that the caller sees that some are left.
    let wanted = wanted.min(MAX_POD_CREATIONS + 1);
    let names: BTreeSet<String> = pods.iter().map(|pod| pod.name_any()).collect();
    let free = |number: &Number| !names.contains(&number.name(job));
    if let Some(done) = done {
        let taken: BTreeSet<i32> =
            pods.iter().filter(|pod| is_active(pod)).filter_map(|pod| index_of(pod)).collect();
        let open = (0..spec.completions.unwrap_or(0))
            .filter(|index| !done.contains(index) && !taken.contains(index));
        // There is one more number than pods, so one is free.
        let first = |index| (0..=pods.len()).map(|attempt| Number { index: Some(index), attempt }).find(free);
        return open.take(wanted).filter_map(first).collect();
    }
    let numbers = (0..).map(|attempt| Number { index: None, attempt }).filter(free);
    numbers.take(wanted).collect()
}

/// Returns how long to wait after the failures since the last success.
fn backoff(pods: &[Arc<Pod>], at: Timestamp) -> Option<Duration> {
    let ends = |wanted: &str| -> Vec<Timestamp> {
        pods.iter().filter(|pod| phase(pod) == wanted).filter_map(|pod| ended_at(pod)).collect()
    };
    let success = ends("Succeeded").into_iter().max();
    let failures: Vec<_> =
        ends("Failed").into_iter().filter(|end| success.is_none_or(|at| *end > at)).collect();
    let doublings = u32::try_from(failures.len().saturating_sub(1)).unwrap_or(u32::MAX).min(10);
    let wait = (FIRST_WAIT * 2_u32.pow(doublings)).min(MAX_BACKOFF);
    until(failures.into_iter().max()?, i64::try_from(wait.as_secs()).unwrap_or(0), at)
}

/// Returns when the last container of a pod ended. A pod whose containers did not all run ended when it stopped being ready.
fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let end =
        |status: &ContainerStatus| Some(status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0);
    let ends: Option<Vec<_>> = status.container_statuses.iter().flatten().map(end).collect();
    ends.and_then(|ends| ends.into_iter().max()).or_else(|| {
        let unready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready" && c.status == "False");
        Some(unready?.last_transition_time.as_ref()?.0)
    })
}

/// Formats completed indexes as `0-2,5`.
fn ranges(indexes: &BTreeSet<i32>) -> String {
    let mut ranges: Vec<(i32, i32)> = Vec::new();
    for &index in indexes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => ranges.push((index, index)),
        }
    }
    let text = |(first, last): (i32, i32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// Sets a condition. Returns `false` if it has this value already.
fn set(status: &mut JobStatus, type_: &str, value: &str, reason: &str, message: &str) -> bool {
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|c| c.type_ == type_ && c.status == value) {
        return false;
    }
    conditions.retain(|condition| condition.type_ != type_);
    conditions.push(JobCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(now()),
        last_transition_time: Some(now()),
    });
    true
}

pub(super) fn pod_of(job: &Job, number: Number) -> Pod {
    let mut pod = from_template(job.spec.clone().unwrap_or_default().template, control_by(job));
    pod.metadata.name = Some(number.name(job));
    if let Some(index) = number.index {
        pod.labels_mut().insert(INDEX.to_owned(), index.to_string());
        pod.annotations_mut().insert(INDEX.to_owned(), index.to_string());
        let spec = pod.spec.get_or_insert_default();
        spec.hostname = Some(format!("{}-{index}", job.name_any()));
        let containers = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        for container in containers {
            let env = container.env.get_or_insert_default();
            env.retain(|variable| variable.name != "JOB_COMPLETION_INDEX");
            env.push(EnvVar {
                name: "JOB_COMPLETION_INDEX".to_owned(),
                value: Some(index.to_string()),
                ..EnvVar::default()
            });
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(spec: serde_json::Value) -> Job {
        let mut spec = spec;
        spec["template"] = json!({"spec": {"containers": [{"name": "main"}], "restartPolicy": "Never"}});
        let object = json!({"metadata": {"name": "j", "namespace": "ns", "uid": "u"}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn pod(name: &str, phase: &str, index: Option<i32>) -> Arc<Pod> {
        let mut object = json!({"metadata": {"name": name}, "status": {"phase": phase, "containerStatuses": [
            {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated":
                {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}}]}});
        if let Some(index) = index {
            object["metadata"]["annotations"] = json!({INDEX: index.to_string()});
        }
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn later() -> Timestamp {
        "2026-01-01T01:00:00Z".parse().unwrap()
    }

    fn has(plan: &Plan, type_: &str) -> bool {
        plan.status.conditions.iter().flatten().any(|c| c.type_ == type_ && c.status == "True")
    }

    #[test]
    fn as_many_pods_as_parallelism_allows_until_enough_have_succeeded() {
        let job = job(json!({"completions": 3, "parallelism": 2}));
        let first = plan(&job, &[], later());
        assert_eq!(first.create.len(), 2);
        // While the cache does not show the new pods, the plan has the same numbers.
        assert_eq!(plan(&job, &[], later()).create, first.create);
        let done = pod(&first.create[0].name(&job), "Succeeded", None);
        let running = pod(&first.create[1].name(&job), "Running", None);
        let second = plan(&job, &[done.clone(), running], later());
        assert_eq!(second.create.len(), 1);
        assert!(!first.create.contains(&second.create[0]));
        let all = [done, pod("b", "Succeeded", None), pod("c", "Succeeded", None)];
        let last = plan(&job, &all, later());
        assert!(has(&last, "Complete") && last.create.is_empty() && last.status.completion_time.is_some());
    }

    #[test]
    fn a_plan_names_few_of_many_pods() {
        let wide = json!({"completions": 100_000, "parallelism": 100_000, "completionMode": "Indexed"});
        assert_eq!(plan(&job(wide), &[], later()).create.len(), MAX_POD_CREATIONS + 1);
    }

    #[test]
    fn failures_wait_and_end_at_the_limit() {
        let job = job(json!({"completions": 1, "parallelism": 1, "backoffLimit": 1}));
        let failed = pod("a", "Failed", None);
        let soon = "2026-01-01T00:00:02Z".parse().unwrap();
        let waiting = plan(&job, std::slice::from_ref(&failed), soon);
        assert!(waiting.create.is_empty() && waiting.again.unwrap() > Duration::from_secs(7));
        assert_eq!(plan(&job, std::slice::from_ref(&failed), later()).create.len(), 1);
        let over = plan(&job, &[failed, pod("b", "Failed", None)], later());
        assert!(has(&over, "Failed") && over.create.is_empty());
        let replaced = plan(&job, &[deleted(&pod("a", "Failed", None))], soon);
        assert_eq!((replaced.create.len(), replaced.status.failed), (1, None), "a deletion is no failure");
    }

    #[test]
    fn an_indexed_job_has_a_pod_for_each_index_that_is_not_done() {
        let job = job(json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}));
        let planned = plan(&job, &[pod("x", "Succeeded", Some(1))], later());
        let indexes: Vec<_> = planned.create.iter().map(|number| number.index).collect();
        assert_eq!(indexes, [Some(0), Some(2)]);
        assert_eq!(planned.status.completed_indexes.as_deref(), Some("1"));
        let made = pod_of(&job, planned.create[0]);
        assert_eq!(made.annotations()[INDEX], "0");
        let env = made.spec.unwrap().containers[0].env.clone().unwrap();
        assert_eq!(env[0].value.as_deref(), Some("0"));
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8].into()), "0-2,5,7-8");
    }

    fn counts(plan: &Plan) -> [Option<i32>; 4] {
        let status = &plan.status;
        [status.active, status.ready, status.failed, status.terminating]
    }

    #[test]
    fn a_suspended_job_runs_nothing_and_starts_anew() {
        let mut suspended =
            job(json!({"completions": 1, "parallelism": 1, "suspend": true, "activeDeadlineSeconds": 60}));
        suspended.status =
            Some(serde_json::from_value(json!({"startTime": "2026-01-01T00:00:00Z"})).unwrap());
        let running = ready("a");
        let planned = plan(&suspended, std::slice::from_ref(&running), later());
        assert_eq!((planned.delete.as_slice(), planned.create.len()), (&[running][..], 0));
        assert_eq!(counts(&planned), [None, Some(0), None, Some(1)]);
        assert!(has(&planned, "Suspended"));
        let mut resumed = job(json!({"completions": 1, "parallelism": 1, "activeDeadlineSeconds": 60}));
        resumed.status = Some(planned.status);
        let planned = plan(&resumed, &[], Timestamp::now());
        assert!(!has(&planned, "Suspended") && !has(&planned, "FailureTarget"));
        assert_eq!(planned.create.len(), 1);
    }

    fn ready(name: &str) -> Arc<Pod> {
        let mut running = Arc::unwrap_or_clone(pod(name, "Running", None));
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        running.status.as_mut().unwrap().conditions = Some(serde_json::from_value(conditions).unwrap());
        Arc::new(running)
    }

    fn deleted(pod: &Arc<Pod>) -> Arc<Pod> {
        let mut pod = Arc::unwrap_or_clone(Arc::clone(pod));
        pod.metadata.deletion_timestamp = Some(now());
        Arc::new(pod)
    }

    #[test]
    fn a_late_job_fails_when_its_last_pod_has_ended() {
        let mut late = job(json!({"completions": 3, "parallelism": 2, "activeDeadlineSeconds": 60}));
        late.status = Some(
            serde_json::from_value(
                json!({"startTime": "2026-01-01T00:00:00Z", "active": 2, "ready": 1, "failed": 1}),
            )
            .unwrap(),
        );
        let pods = [ready("a"), pod("b", "Pending", None), pod("c", "Failed", None)];
        let first = plan(&late, &pods, later());
        assert_eq!(first.delete, pods[..2]);
        assert_eq!(counts(&first), [None, Some(0), Some(3), Some(2)]);
        assert!(has(&first, "FailureTarget") && !has(&first, "Failed"));
        late.status = Some(first.status.clone());
        // While the cache does not show the deletion, nothing is counted again.
        assert_eq!(counts(&plan(&late, &pods, later())), counts(&first));
        let second = plan(&late, &[deleted(&pods[0]), pods[2].clone()], later());
        assert!(!has(&second, "Failed"));
        late.status = Some(second.status);
        let last = plan(&late, &pods[2..], later());
        assert_eq!(counts(&last), [None, Some(0), Some(3), Some(0)]);
        let end = last.status.conditions.unwrap().into_iter().find(|c| c.type_ == "Failed").unwrap();
        assert_eq!(end.reason.as_deref(), Some("DeadlineExceeded"));
        assert_eq!(last.status.completion_time, None);
    }

    #[test]
    fn what_still_runs_is_deleted_before_a_job_is_complete() {
        let mut job = job(json!({"completions": 1, "parallelism": 2}));
        let pods = [pod("a", "Succeeded", None), ready("b")];
        let first = plan(&job, &pods, later());
        assert_eq!((first.delete.as_slice(), counts(&first)), (&pods[1..], [None, Some(0), None, Some(1)]));
        assert!(has(&first, "SuccessCriteriaMet") && !has(&first, "Complete"));
        job.status = Some(first.status);
        let last = plan(&job, &pods[..1], later());
        assert!(has(&last, "Complete") && last.status.completion_time.is_some());
    }

    #[test]
    fn only_restarts_of_pods_that_restart_on_failure_count_as_failures() {
        let restarted = |policy: &str, limit: i32, restarts: i32| {
            let mut job = job(json!({"completions": 1, "backoffLimit": limit}));
            let template = &mut job.spec.as_mut().unwrap().template;
            template.spec.as_mut().unwrap().restart_policy = Some(policy.to_owned());
            let mut pod = Arc::unwrap_or_clone(pod("a", "Running", None));
            let status = pod.status.as_mut().unwrap();
            status.container_statuses.as_mut().unwrap()[0].restart_count = restarts;
            status.init_container_statuses = status.container_statuses.take();
            has(&plan(&job, &[Arc::new(pod)], later()), "FailureTarget")
        };
        assert!(restarted("OnFailure", 2, 2) && restarted("OnFailure", 0, 1));
        assert!(!restarted("OnFailure", 2, 1) && !restarted("OnFailure", 0, 0));
        assert!(!restarted("Never", 2, 3));
    }

    #[test]
    fn failures_before_the_last_success_do_not_make_the_next_pod_wait() {
        let job = job(json!({"completions": 3, "parallelism": 1}));
        let at = |name: &str, phase: &str, second: &str| {
            let mut pod = Arc::unwrap_or_clone(pod(name, phase, None));
            let status = &mut pod.status.as_mut().unwrap().container_statuses.as_mut().unwrap()[0];
            let state =
                json!({"terminated": {"exitCode": 1, "finishedAt": format!("2026-01-01T00:00:{second}Z")}});
            status.state = serde_json::from_value(state).unwrap();
            Arc::new(pod)
        };
        let pods = [at("a", "Failed", "01"), at("b", "Failed", "02"), at("c", "Succeeded", "03")];
        let soon: Timestamp = "2026-01-01T00:00:05Z".parse().unwrap();
        assert_eq!(plan(&job, &pods, soon).create.len(), 1);
        let pods = [pods.as_slice(), &[at("d", "Failed", "04")]].concat();
        let waiting = plan(&job, &pods, soon);
        assert!(waiting.create.is_empty() && waiting.again.unwrap() < Duration::from_secs(10));
    }

    #[test]
    fn less_parallelism_deletes_pods_that_are_not_ready_first() {
        let mut job = job(json!({"completions": 5, "parallelism": 1}));
        let pods = [ready("a"), pod("b", "Pending", None)];
        let planned = plan(&job, &pods, later());
        assert_eq!(
            (planned.delete.as_slice(), counts(&planned)),
            (&pods[1..], [Some(1), Some(1), None, Some(1)])
        );
        job.spec.as_mut().unwrap().pod_replacement_policy = Some("Failed".to_owned());
        assert!(plan(&job, &[deleted(&pods[0])], later()).create.is_empty());
        job.spec.as_mut().unwrap().pod_replacement_policy = None;
        assert_eq!(plan(&job, &[deleted(&pods[0])], later()).create.len(), 1);
    }

    #[test]
    fn an_index_stays_done_when_its_pod_is_deleted() {
        let mut job = job(json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"}));
        job.status =
            Some(serde_json::from_value(json!({"completedIndexes": "0-1,3", "succeeded": 3})).unwrap());
        let planned = plan(&job, &[], later());
        let indexes: Vec<_> = planned.create.iter().map(|number| number.index).collect();
        assert_eq!(indexes, [Some(2)]);
        assert_eq!(planned.status.completed_indexes.as_deref(), Some("0-1,3"));
        assert_eq!(pod_of(&job, planned.create[0]).spec.unwrap().hostname.as_deref(), Some("j-2"));
    }
}
