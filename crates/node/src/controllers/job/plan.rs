//! Decides what to do about a job: a pure function of the job and its pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{EnvVar, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use longboat_key::names::GENERATED_ALPHABET;
use sha2::{Digest, Sha256};

use crate::controllers::owners::control_by;
use crate::controllers::pods::{from_template, is_active, ready_since};
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
    /// Whether to delete the running pods.
    pub(super) stop: bool,
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

/// Returns the time until `seconds` after `since`, or `None` if that moment has passed.
pub(super) fn until(since: Timestamp, seconds: i64, at: Timestamp) -> Option<Duration> {
    let due = since.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    (due > at).then(|| due.duration_since(at).unsigned_abs() + Duration::from_millis(10))
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn index_of(pod: &Pod) -> Option<i32> {
    pod.annotations().get(INDEX)?.parse().ok()
}

pub(super) fn plan(job: &Job, pods: &[Arc<Pod>], at: Timestamp) -> Plan {
    let spec = job.spec.clone().unwrap_or_default();
    let before = job.status.clone().unwrap_or_default();
    let count = |wanted: &dyn Fn(&Pod) -> bool| pods.iter().filter(|pod| wanted(pod)).count();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
    let done: BTreeSet<i32> =
        pods.iter().filter(|pod| phase(pod) == "Succeeded").filter_map(|pod| index_of(pod)).collect();
    // Deleted pods still count.
    let succeeded = if is_indexed { done.len() } else { count(&|pod| phase(pod) == "Succeeded") };
    let succeeded = number(succeeded).max(before.succeeded.unwrap_or(0));
    let failed_pods = count(&|pod| phase(pod) == "Failed");
    let failed = number(failed_pods).max(before.failed.unwrap_or(0));
    let active = count(&is_active);
    let mut status = JobStatus {
        active: Some(number(active)).filter(|active| *active > 0),
        ready: Some(number(count(&|pod| is_active(pod) && ready_since(pod).is_some()))),
        succeeded: Some(succeeded).filter(|succeeded| *succeeded > 0),
        failed: Some(failed).filter(|failed| *failed > 0),
        terminating: Some(number(count(&|pod| pod.metadata.deletion_timestamp.is_some()))),
        completed_indexes: is_indexed.then(|| ranges(&done)).filter(|text| !text.is_empty()),
        start_time: before.start_time.clone().or_else(|| Some(now())),
        conditions: before.conditions.clone(),
        ..JobStatus::default()
    };
    if spec.suspend == Some(true) {
        status.start_time = None;
        let message = "Job suspended";
        set(&mut status, "Suspended", "True", "JobSuspended", message);
        return Plan { stop: true, status, ..Plan::default() };
    }
    if status.conditions.iter().flatten().any(|c| c.type_ == "Suspended" && c.status == "True") {
        set(&mut status, "Suspended", "False", "JobResumed", "Job resumed");
        status.start_time = Some(now());
    }

    let over = match spec.completions {
        Some(completions) => succeeded >= completions,
        // Without `completions`, the pods share a work queue: the job is complete when one has succeeded and none is active.
        None => succeeded > 0 && active == 0,
    };
    if over {
        let message = "Reached expected number of succeeded pods";
        set(&mut status, "SuccessCriteriaMet", "True", "CompletionsReached", message);
        set(&mut status, "Complete", "True", "CompletionsReached", message);
        status.completion_time = Some(now());
        return Plan { stop: true, status, ..Plan::default() };
    }
    let restarts: i32 = pods.iter().filter(|pod| is_active(pod)).map(|pod| restarts(pod)).sum();
    let deadline = spec.active_deadline_seconds.zip(status.start_time.clone());
    let left = deadline.map(|(seconds, since)| until(since.0, seconds, at));
    let failure = if failed.saturating_add(restarts) > spec.backoff_limit.unwrap_or(6) {
        Some(("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
    } else if left == Some(None) {
        Some(("DeadlineExceeded", "Job was active longer than specified deadline"))
    } else {
        None
    };
    if let Some((reason, message)) = failure {
        set(&mut status, "FailureTarget", "True", reason, message);
        set(&mut status, "Failed", "True", reason, message);
        status.active = None;
        return Plan { stop: true, status, ..Plan::default() };
    }

    let wait = backoff(pods, failed_pods, at);
    let create =
        if wait.is_some() { Vec::new() } else { missing(&spec, job, pods, &done, succeeded, active) };
    let again = wait.into_iter().chain(left.flatten()).min();
    Plan { create, status, again, stop: false }
}

/// Returns the numbers of the pods to create.
fn missing(
    spec: &JobSpec,
    job: &Job,
    pods: &[Arc<Pod>],
    done: &BTreeSet<i32>,
    succeeded: i32,
    active: usize,
) -> Vec<Number> {
    let parallelism = spec.parallelism.unwrap_or(1).max(0);
    let left = match spec.completions {
        Some(completions) => completions - succeeded,
        // No new pods once one of them has succeeded, which means that the work queue is empty.
        None if succeeded > 0 => 0,
        None => parallelism,
    };
    let wanted = usize::try_from(parallelism.min(left)).unwrap_or(0).saturating_sub(active);
    let names: BTreeSet<String> = pods.iter().map(|pod| pod.name_any()).collect();
    let free = |index: Option<i32>| {
        // There is one more number than pods, so one is free.
        (0..=pods.len())
            .map(move |attempt| Number { index, attempt })
            .find(|number| !names.contains(&number.name(job)))
    };
    if spec.completion_mode.as_deref() == Some("Indexed") {
        let taken: BTreeSet<i32> =
            pods.iter().filter(|pod| is_active(pod)).filter_map(|pod| index_of(pod)).collect();
        let open = (0..spec.completions.unwrap_or(0))
            .filter(|index| !done.contains(index) && !taken.contains(index));
        return open.take(wanted).filter_map(|index| free(Some(index))).collect();
    }
    let mut numbers = Vec::with_capacity(wanted.min(MAX_POD_CREATIONS));
    let mut attempt = 0;
    while numbers.len() < wanted.min(MAX_POD_CREATIONS + 1) {
        let number = Number { index: None, attempt };
        if !names.contains(&number.name(job)) {
            numbers.push(number);
        }
        attempt += 1;
    }
    numbers
}

/// Returns how long to wait after failures.
fn backoff(pods: &[Arc<Pod>], failed: usize, at: Timestamp) -> Option<Duration> {
    let ended = pods.iter().filter(|pod| phase(pod) == "Failed").filter_map(|pod| ended_at(pod)).max()?;
    let doublings = u32::try_from(failed.saturating_sub(1)).unwrap_or(u32::MAX).min(10);
    let wait = (FIRST_WAIT * 2_u32.pow(doublings)).min(MAX_BACKOFF);
    until(ended, i64::try_from(wait.as_secs()).unwrap_or(0), at)
}

fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let ends =
        statuses.iter().filter_map(|status| status.state.as_ref()?.terminated.as_ref()?.finished_at.clone());
    ends.map(|Time(at)| at).max()
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).sum()
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

fn set(status: &mut JobStatus, type_: &str, value: &str, reason: &str, message: &str) {
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|c| c.type_ == type_ && c.status == value) {
        return;
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
}

pub(super) fn pod_of(job: &Job, number: Number) -> Pod {
    let mut pod = from_template(job.spec.clone().unwrap_or_default().template, control_by(job));
    pod.metadata.name = Some(number.name(job));
    if let Some(index) = number.index {
        pod.labels_mut().insert(INDEX.to_owned(), index.to_string());
        pod.annotations_mut().insert(INDEX.to_owned(), index.to_string());
        let spec = pod.spec.get_or_insert_default();
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
    fn failures_wait_and_end_at_the_limit() {
        let job = job(json!({"completions": 1, "parallelism": 1, "backoffLimit": 1}));
        let failed = pod("a", "Failed", None);
        let soon = "2026-01-01T00:00:02Z".parse().unwrap();
        let waiting = plan(&job, std::slice::from_ref(&failed), soon);
        assert!(waiting.create.is_empty() && waiting.again.unwrap() > Duration::from_secs(7));
        assert_eq!(plan(&job, std::slice::from_ref(&failed), later()).create.len(), 1);
        let over = plan(&job, &[failed, pod("b", "Failed", None)], later());
        assert!(has(&over, "Failed") && over.stop);
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

    #[test]
    fn a_suspended_job_runs_nothing_and_a_late_one_fails() {
        let suspended = job(json!({"completions": 1, "parallelism": 1, "suspend": true}));
        let planned = plan(&suspended, &[pod("a", "Running", None)], later());
        assert!(planned.stop && planned.create.is_empty() && has(&planned, "Suspended"));
        let mut late = job(json!({"completions": 1, "parallelism": 1, "activeDeadlineSeconds": 60}));
        late.status = Some(serde_json::from_value(json!({"startTime": "2026-01-01T00:00:00Z"})).unwrap());
        assert!(has(&plan(&late, &[], later()), "Failed"));
    }
}
