//! Rules for the annotation that keeps prefill and decode pods of different revisions apart. KServe does not have it.

use super::Report;
use crate::{
    annotations::KV_PAIRING,
    pairing::{self, UnknownValue},
    v1alpha2::LLMInferenceService,
};

/// Refuses an unknown value, which would silently mean that pods are not kept apart.
pub(super) fn check(service: &LLMInferenceService, report: &mut Report) {
    if let Err(UnknownValue(word)) = pairing::of_annotations(service.metadata.annotations.as_ref()) {
        let field = format!("metadata.annotations[{KV_PAIRING}]");
        report.not_supported(field, &word, "supported values: \"true\", \"false\"");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_that_means_nothing_is_refused_by_the_annotations_name() {
        for (word, accepted) in [("true", true), ("false", true), ("", false), ("True", false), ("on", false)]
        {
            let service = json!({
                "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
                "metadata": {"name": "llm", "annotations": {KV_PAIRING: word}},
                "spec": {"model": {"uri": "hf://a/b"}},
            });
            let mut report = Report::default();
            check(&serde_json::from_value(service).unwrap(), &mut report);
            assert_eq!(report.is_accepted(), accepted, "{word}");
            assert!(report.errors.iter().all(|error| error.field.contains(KV_PAIRING)), "{word}");
        }
    }
}
