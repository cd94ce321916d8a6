//! Rules for the names of services.

use super::Report;
use crate::v1alpha2::LLMInferenceService;

/// The most bytes in the value of a label.
const MAX_LEN: usize = 63;

/// Refuses names that no Service can have. A service's name is the start of the name of its workload Service, which must be
/// a DNS-1035 label, and is a label value on every child. KServe accepts such names, and its reconciles then fail forever.
pub(super) fn check(service: &LLMInferenceService, report: &mut Report) {
    let name = service.metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() {
        return;
    }
    let fine = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if name.len() > MAX_LEN {
        report.invalid(
            "metadata.name",
            &name,
            "must be no more than 63 characters, because every object made for the service has it as a label",
        );
    }
    if !fine {
        report.invalid(
            "metadata.name",
            &name,
            "must start with a lower-case letter and contain only lower-case letters, digits and '-', because the \
             name of the workload Service starts with it",
        );
    }
}
