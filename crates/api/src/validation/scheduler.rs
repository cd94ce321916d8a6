//! Rules for the scheduler.

use super::Report;
use crate::v1alpha2::SchedulerSpec;

const SCHEDULER: &str = "spec.router.scheduler";

/// Checks the scheduler.
pub(super) fn check(scheduler: &SchedulerSpec, report: &mut Report) {
    check_replicas(scheduler, report);
    let Some(config) = &scheduler.config else { return };
    let field = format!("{SCHEDULER}.config");
    match (&config.inline, &config.ref_) {
        (None, None) => report.invalid(&field, config, "either inline or ref is required"),
        (Some(_), Some(_)) => {
            report.invalid(&field, config, "both inline and ref are set, either specify inline or ref");
        }
        _ => {}
    }
    if let Some(inline) = &config.inline
        && inline.as_object().is_some_and(serde_json::Map::is_empty)
    {
        report.invalid(format!("{field}.inline"), inline, "inline configuration is invalid: it is empty");
    }
    if let Some(reference) = &config.ref_
        && reference.name.is_empty()
    {
        report.invalid(format!("{field}.ref.name"), &reference.name, "name is empty");
    }
}

/// Checks the replicas. Configs are checked, too.
pub(super) fn check_replicas(scheduler: &SchedulerSpec, report: &mut Report) {
    if let Some(replicas) = scheduler.replicas.filter(|n| *n <= 0) {
        report.invalid(
            format!("{SCHEDULER}.replicas"),
            &replicas,
            "scheduler replicas must be greater than zero",
        );
    }
}
