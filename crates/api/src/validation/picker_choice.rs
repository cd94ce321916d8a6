//! Rules for the annotation that asks for a picker. KServe does not have it.

use super::Report;
use crate::{
    annotations::PICKER,
    picker_choice::{PickerChoice, UnknownPicker},
    v1alpha2::LLMInferenceService,
};

/// Refuses an unknown value, which would silently mean the setting of the platform.
pub(super) fn check(service: &LLMInferenceService, report: &mut Report) {
    if let Err(UnknownPicker(word)) = PickerChoice::of_annotations(service.metadata.annotations.as_ref()) {
        let field = format!("metadata.annotations[{PICKER}]");
        report.not_supported(field, &word, "supported values: \"own\", \"shared\"");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_word_that_means_nothing_is_refused_by_the_annotations_name() {
        let said = |word: &str| {
            let service = json!({
                "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
                "metadata": {"name": "llm", "annotations": {PICKER: word}},
                "spec": {"model": {"uri": "hf://a/b"}},
            });
            let mut report = Report::default();
            check(&serde_json::from_value(service).unwrap(), &mut report);
            let errors = report.errors.iter();
            errors.map(|error| (error.field.clone(), error.message(ToString::to_string))).collect::<Vec<_>>()
        };
        for known in ["own", "shared"] {
            assert_eq!(said(known), [], "{known}");
        }
        for unknown in ["", "Own", "true"] {
            let message = format!("Unsupported value: \"{unknown}\": supported values: \"own\", \"shared\"");
            assert_eq!(said(unknown), [("metadata.annotations[longboat.dev/picker]".to_owned(), message)]);
        }
    }
}
