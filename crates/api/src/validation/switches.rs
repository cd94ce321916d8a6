//! Rules for annotations that turn something on or off. KServe does not have them.

use super::Report;
use crate::{
    switches::{self, UnknownValue},
    v1alpha2::LLMInferenceService,
};

/// Refuses an unknown value, which would silently mean `false`.
pub(super) fn check(service: &LLMInferenceService, report: &mut Report) {
    for switch in switches::ALL {
        if let Err(UnknownValue(word)) = switches::value(service.metadata.annotations.as_ref(), switch) {
            let field = format!("metadata.annotations[{switch}]");
            report.not_supported(field, &word, "supported values: \"true\", \"false\"");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_that_means_nothing_is_refused_by_the_annotations_name() {
        let words = [("true", true), ("false", true), ("", false), ("True", false), ("on", false)];
        for (switch, (word, accepted)) in
            switches::ALL.into_iter().flat_map(|switch| words.map(|word| (switch, word)))
        {
            let service = json!({
                "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
                "metadata": {"name": "llm", "annotations": {switch: word}},
                "spec": {"model": {"uri": "hf://a/b"}},
            });
            let mut report = Report::default();
            check(&serde_json::from_value(service).unwrap(), &mut report);
            assert_eq!(report.is_accepted(), accepted, "{word}");
            assert!(report.errors.iter().all(|error| error.field.contains(switch)), "{word}");
        }
    }
}
