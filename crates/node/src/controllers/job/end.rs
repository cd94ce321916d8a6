//! How a job ends.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use crate::controllers::pods::{has_ended, restarts};

/// How a job ends, with the condition that comes at once, and the one that comes when no pod is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub(super) target: &'static str,
    pub(super) condition: &'static str,
    pub(super) reason: String,
    pub(super) message: String,
}

/// Returns the end that an earlier reconcile has decided.
pub(super) fn decided(status: &JobStatus) -> Option<End> {
    let ends = [("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")];
    ends.into_iter().find_map(|(target, condition)| {
        let found = status.conditions.iter().flatten().find(|c| c.type_ == target && c.status == "True")?;
        let [reason, message] = [&found.reason, &found.message].map(|text| text.clone().unwrap_or_default());
        Some(End { target, condition, reason, message })
    })
}

/// Returns why a job has failed.
pub(super) fn failure(spec: &JobSpec, pods: &[Arc<Pod>], failed: i32, is_late: bool) -> Option<End> {
    let limit = spec.backoff_limit.unwrap_or(6);
    let (reason, message) = if failed > limit || has_restarted_too_often(spec, pods, limit) {
        ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    } else if is_late {
        ("DeadlineExceeded", "Job was active longer than specified deadline")
    } else {
        return None;
    };
    let (reason, message) = (reason.to_owned(), message.to_owned());
    Some(End { target: "FailureTarget", condition: "Failed", reason, message })
}

/// Whether the containers of pods with the policy `OnFailure` have restarted as often as pods may fail.
fn has_restarted_too_often(spec: &JobSpec, pods: &[Arc<Pod>], limit: i32) -> bool {
    let policy = spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    let restarts: i32 = pods.iter().filter(|pod| !has_ended(pod)).map(|pod| restarts(pod)).sum();
    policy == Some("OnFailure") && restarts > 0 && restarts >= limit
}

/// Returns how a job has succeeded.
pub(super) fn success(spec: &JobSpec, succeeded: i32, active: usize) -> Option<End> {
    let is_over = match spec.completions {
        Some(completions) => succeeded >= completions,
        // Without `completions`, the pods share a work queue: the job is complete when one has succeeded and none is active.
        None => succeeded > 0 && active == 0,
    };
    is_over.then(|| End {
        target: "SuccessCriteriaMet",
        condition: "Complete",
        reason: "CompletionsReached".to_owned(),
        message: "Reached expected number of succeeded pods".to_owned(),
    })
}

/// Whether a condition is true.
pub(super) fn holds(status: &JobStatus, type_: &str) -> bool {
    status.conditions.iter().flatten().any(|c| c.type_ == type_ && c.status == "True")
}
