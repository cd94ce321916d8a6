//! Rules for the annotation that asks for a DisaggregatedSet. Longboat creates none.

use super::Report;
use crate::{annotations::ENABLE_DISAGGREGATED_SET, v1alpha2::LLMInferenceService};

/// Refuses values that KServe refuses, and warns that the others have no effect.
pub(super) fn check(service: &LLMInferenceService, report: &mut Report) {
    let annotations = service.metadata.annotations.as_ref();
    let Some(value) = annotations.and_then(|all| all.get(ENABLE_DISAGGREGATED_SET)) else { return };
    let field = format!("metadata.annotations[{ENABLE_DISAGGREGATED_SET}]");
    match value.trim().to_ascii_lowercase().as_str() {
        "false" => {}
        "true" => report.warn(format!("{field} has no effect: Longboat creates no DisaggregatedSet")),
        _ => report.not_supported(field, value, "supported values: \"true\", \"false\""),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_true_and_false_are_accepted_and_true_is_warned_about() {
        for (value, causes, warnings) in
            [("true", 0, 1), (" True\n", 0, 1), ("FALSE", 0, 0), ("", 1, 0), ("1", 1, 0), ("yes", 1, 0)]
        {
            let service = json!({
                "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
                "metadata": {"name": "llm", "annotations": {ENABLE_DISAGGREGATED_SET: value}},
                "spec": {"model": {"uri": "hf://a/b"}},
            });
            let mut report = Report::default();
            check(&serde_json::from_value(service).unwrap(), &mut report);
            assert_eq!((report.errors.len(), report.warnings.len()), (causes, warnings), "{value:?}");
        }
    }
}
