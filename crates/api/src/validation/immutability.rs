//! Rules for immutable fields.

use super::Report;
use crate::v1alpha2::{LLMInferenceServiceSpec, WorkloadSpec};

/// Checks that the number of pods in a group does not change. Adding or removing a prefill workload is valid.
pub(super) fn check(old: &LLMInferenceServiceSpec, new: &LLMInferenceServiceSpec, report: &mut Report) {
    check_size("spec", &old.workload, &new.workload, report);
    if let (Some(old), Some(new)) = (&old.prefill, &new.prefill) {
        check_size("spec.prefill", old, new, report);
    }
}

fn check_size(path: &str, old: &WorkloadSpec, new: &WorkloadSpec, report: &mut Report) {
    let (old, new) = (old.size().unwrap_or(1), new.size().unwrap_or(1));
    if old != new {
        report.not_supported(
            format!("{path}.parallelism"),
            &new,
            &format!("total parallelism size is immutable, previous size {old}, curr size {new}"),
        );
    }
}
