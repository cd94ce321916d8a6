//! Rules for the annotation that requires a proof of serving. KServe does not have it.

use super::Report;
use crate::{
    annotations::SERVING_PROOF,
    proof::{ProofMode, UnknownMode},
    v1alpha2::LLMInferenceService,
};

/// Refuses an unknown value, which would silently mean that nothing is proven.
pub(super) fn check(service: &LLMInferenceService, report: &mut Report) {
    if let Err(UnknownMode(word)) = ProofMode::of_annotations(service.metadata.annotations.as_ref()) {
        let field = format!("metadata.annotations[{SERVING_PROOF}]");
        report.not_supported(field, &word, "supported values: \"off\", \"report\", \"gate\"");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(word: &str) -> Report {
        let service = json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": "llm", "annotations": {SERVING_PROOF: word}},
            "spec": {"model": {"uri": "hf://a/b"}},
        });
        let mut report = Report::default();
        check(&serde_json::from_value(service).unwrap(), &mut report);
        report
    }

    #[test]
    fn a_word_that_means_nothing_is_refused_by_the_annotations_name() {
        for known in ["off", "report", "gate"] {
            assert!(said(known).is_accepted(), "{known}");
        }
        for unknown in ["", "Gate", "true"] {
            let report = said(unknown);
            assert_eq!(report.errors.len(), 1, "{unknown}");
            assert_eq!(report.errors[0].field, "metadata.annotations[longboat.dev/serving-proof]");
            assert_eq!(
                report.errors[0].message(ToString::to_string),
                format!("Unsupported value: \"{unknown}\": supported values: \"off\", \"report\", \"gate\"")
            );
        }
    }
}
