//! Jobs: run pods until enough of them have succeeded.
//!
//! Kubernetes: pkg/controller/job. The names of pods are derived from the job and a number. So if a job is reconciled twice
//! before the watch catches up, it does not get its pods twice.

mod end;
mod plan;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, Client, ResourceExt};
use longboat_key::Key;

use super::owners::{controlled_by, owner_key};
use super::queue::{self, Again, Reconcile, triggers};
use super::setup::Setup;
use super::writes::{api_beside, create_pod, delete_pod, merge_status, tolerate, with_nulls};
use crate::cache::Cache;
use crate::events::{Recorder, Severity};
use end::holds;
use plan::{MAX_POD_CREATIONS, plan, pod_of};

struct Jobs {
    client: Client,
    pods: Cache<Pod>,
    recorder: Recorder,
}

pub(super) async fn run(Setup { client, caches, recorder, cancel }: Setup) {
    let pods = triggers(&caches.pods, |pod: &Pod| owner_key(pod, "Job"));
    caches.pods.ready().await;
    queue::run(Jobs { client, pods: caches.pods, recorder }, caches.jobs, pods, cancel).await;
}

impl Reconcile<Job> for Jobs {
    const NAME: &'static str = "job";

    async fn reconcile(&mut self, _: &Key, job: &Job) -> Again {
        let at = Timestamp::now();
        if let Some(end) = finished(&job.status.clone().unwrap_or_default()) {
            return self.expire(job, end, at).await;
        }
        if let Some(field) = unsupported(job) {
            let message = format!("the job does not run, because this machine does not support spec.{field}");
            self.recorder.publish(job, Severity::Warning, "NotRun", message);
            return Ok(None);
        }
        let pods = controlled_by(&self.pods, job);
        let plan = plan(job, &pods, at);
        for number in plan.create.iter().take(MAX_POD_CREATIONS) {
            let pod = pod_of(job, *number);
            tolerate(create_pod(&self.client, &self.recorder, job, &pod).await, &[409])?;
        }
        for pod in &plan.delete {
            if delete_pod(&self.client, pod).await? {
                let message = format!("Deleted pod: {}", pod.name_any());
                self.recorder.publish(job, Severity::Normal, "SuccessfulDelete", message);
            }
        }
        self.write(job, &plan.status).await?;
        let more = (plan.create.len() > MAX_POD_CREATIONS).then_some(Duration::from_millis(100));
        Ok(plan.again.into_iter().chain(more).min())
    }
}

impl Jobs {
    async fn write(&self, job: &Job, status: &JobStatus) -> Result<(), kube::Error> {
        if job.status.as_ref() == Some(status) {
            return Ok(());
        }
        let removable = ["active", "ready", "succeeded", "failed", "completionTime", "completedIndexes"];
        if !merge_status(&self.client, job, with_nulls(status, &removable)).await? {
            return Ok(());
        }
        if let Some(end) = finished(status) {
            let reason = end.reason.unwrap_or_default();
            let (severity, reason, message) = match reason.as_str() {
                "CompletionsReached" => (Severity::Normal, "Completed", "Job completed".to_owned()),
                "DeadlineExceeded" => {
                    (Severity::Warning, "DeadlineExceeded", end.message.unwrap_or_default())
                }
                _ => (Severity::Warning, "BackoffLimitExceeded", end.message.unwrap_or_default()),
            };
            self.recorder.publish(job, severity, reason, message);
        }
        let suspended = [job.status.as_ref(), Some(status)]
            .map(|status| status.is_some_and(|status| holds(status, "Suspended")));
        match suspended {
            [false, true] => self.recorder.publish(job, Severity::Normal, "Suspended", "Job suspended"),
            [true, false] => self.recorder.publish(job, Severity::Normal, "Resumed", "Job resumed"),
            _ => {}
        }
        Ok(())
    }

    /// Deletes a finished job after its time to live.
    async fn expire(&self, job: &Job, end: JobCondition, at: Timestamp) -> Again {
        let Some(seconds) = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished) else {
            return Ok(None);
        };
        let since = end.last_transition_time.map_or(at, |time| time.0);
        let left = until(since, i64::from(seconds), at);
        if left.is_some() {
            return Ok(left);
        }
        let api: Api<Job> = api_beside(&self.client, job);
        tolerate(api.delete(&job.name_any(), &DeleteParams::background()).await, &[404])?;
        Ok(None)
    }
}

/// Returns a field that would change the job's behaviour and that is not supported here.
fn unsupported(job: &Job) -> Option<&'static str> {
    let spec = job.spec.as_ref()?;
    [
        ("podFailurePolicy", spec.pod_failure_policy.is_some()),
        ("successPolicy", spec.success_policy.is_some()),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index.is_some()),
        ("managedBy", spec.managed_by.as_deref().is_some_and(|by| by != "kubernetes.io/job-controller")),
    ]
    .into_iter()
    .find_map(|(field, is_set)| is_set.then_some(field))
}

/// Returns the condition that says that a job has finished.
fn finished(status: &JobStatus) -> Option<JobCondition> {
    let conditions = status.conditions.iter().flatten();
    conditions
        .filter(|c| c.status == "True")
        .find(|c| matches!(c.type_.as_str(), "Complete" | "Failed"))
        .cloned()
}

/// Returns the time until `seconds` after `since`, or `None` if that moment has passed.
fn until(since: Timestamp, seconds: i64, at: Timestamp) -> Option<Duration> {
    let due = since.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    (due > at).then(|| due.duration_since(at).unsigned_abs() + Duration::from_millis(10))
}
