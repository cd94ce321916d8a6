//! Rules for rollout strategies.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Report;
use crate::v1alpha2::WorkloadSpec;

/// Checks the rollout strategy of the workload at `path`.
pub(super) fn check(path: &str, workload: &WorkloadSpec, report: &mut Report) {
    let Some(strategy) = &workload.rollout_strategy else { return };
    let field = format!("{path}.rolloutStrategy");
    let before = report.errors.len();
    for (name, value) in [("maxUnavailable", &strategy.max_unavailable), ("maxSurge", &strategy.max_surge)] {
        if let Some(value) = value {
            check_value(&format!("{field}.{name}"), value, report);
        }
    }
    if report.errors.len() > before {
        return;
    }
    // Like KServe, scales both to one pod: 25 % of one unavailable pod is none, 25 % surge is one.
    let unavailable = strategy.max_unavailable.as_ref().map(|v| of_one(v, false));
    let surge = strategy.max_surge.as_ref().map(|v| of_one(v, true));
    if (unavailable, surge) == (Some(0), Some(0)) {
        report.invalid(
            &field,
            strategy,
            "maxUnavailable and maxSurge cannot both be zero; this would prevent any rolling update progress",
        );
    }
    if workload.worker.is_some() && unavailable == Some(0) && surge.is_none() {
        report.required(
            format!("{field}.maxSurge"),
            "maxSurge is required when maxUnavailable amounts to zero, because a multi-node workload surges by zero",
        );
    }
}

fn check_value(field: &str, value: &IntOrString, report: &mut Report) {
    match value {
        IntOrString::Int(n) if *n < 0 => report.invalid(field, n, "must be greater than or equal to 0"),
        IntOrString::Int(_) => {}
        IntOrString::String(text) => match percent(text) {
            None => report.invalid(
                field,
                text,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                 regex used for validation is '[0-9]+%')",
            ),
            Some(percent) if percent > 100 => report.invalid(field, text, "must not be greater than 100%"),
            Some(_) => {}
        },
    }
}

/// Returns the number before the percent sign. A number that is too large to parse becomes the maximum.
fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// Returns the number of pods that a value means for one pod.
fn of_one(value: &IntOrString, round_up: bool) -> i32 {
    match value {
        IntOrString::Int(n) => *n,
        IntOrString::String(text) => match percent(text).unwrap_or_default() {
            0 => 0,
            100.. => 1,
            _ => i32::from(round_up),
        },
    }
}
