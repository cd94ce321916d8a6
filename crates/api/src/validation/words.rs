//! Rules for annotations of services that take one of a few words. KServe does not have these annotations.

use super::Report;
use crate::{
    annotations::{KV_PAIRING, PICKER, RUNTIME_ADAPTERS, SERVING_PROOF},
    shared_picker::{OWN, SHARED},
    v1alpha2::LLMInferenceService,
};

/// The words of each annotation.
const WORDS: [(&str, &[&str]); 4] = [
    (KV_PAIRING, &["true", "false"]),
    (RUNTIME_ADAPTERS, &["true", "false"]),
    (SERVING_PROOF, &["off", "report", "gate"]),
    (PICKER, &[OWN, SHARED]),
];

/// The length to which a refused value is cut, in characters.
const MAX_VALUE: usize = 64;

/// Refuses unknown words, which would silently have no effect.
pub(super) fn check(service: &LLMInferenceService, report: &mut Report) {
    let Some(annotations) = &service.metadata.annotations else { return };
    for (annotation, words) in WORDS {
        let Some(word) = annotations.get(annotation).filter(|word| !words.contains(&word.as_str())) else {
            continue;
        };
        let known: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
        report.not_supported(
            format!("metadata.annotations[{annotation}]"),
            &word.chars().take(MAX_VALUE).collect::<String>(),
            &format!("supported values: {}", known.join(", ")),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{picker_choice::PickerChoice, proof::ProofMode, switches};

    fn said(annotation: &str, word: &str) -> Vec<(String, String)> {
        let service = json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": "llm", "annotations": {annotation: word}},
            "spec": {"model": {"uri": "hf://a/b"}},
        });
        let mut report = Report::default();
        check(&serde_json::from_value(service).unwrap(), &mut report);
        report.errors.iter().map(|error| (error.field.clone(), error.message(ToString::to_string))).collect()
    }

    #[test]
    fn a_word_that_means_nothing_is_refused_by_the_annotations_name() {
        for (annotation, words) in WORDS {
            for known in words {
                assert_eq!(said(annotation, known), [], "{annotation} {known}");
            }
            let known = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
            for unknown in ["", "True", "Own", "on"] {
                let message = format!("Unsupported value: \"{unknown}\": supported values: {known}");
                assert_eq!(
                    said(annotation, unknown),
                    [(format!("metadata.annotations[{annotation}]"), message)]
                );
            }
        }
    }

    #[test]
    fn a_word_is_accepted_if_and_only_if_its_reader_knows_it() {
        let words = ["true", "false", "off", "report", "gate", "own", "shared", "", "True"];
        for (annotation, word) in
            WORDS.iter().flat_map(|(annotation, _)| words.map(|word| (*annotation, word)))
        {
            let annotations = Some([(annotation.to_owned(), word.to_owned())].into_iter().collect());
            let is_read = match annotation {
                SERVING_PROOF => ProofMode::of_annotations(annotations.as_ref()).is_ok(),
                PICKER => PickerChoice::of_annotations(annotations.as_ref()).is_some(),
                _ => switches::value(annotations.as_ref(), annotation).is_some(),
            };
            assert_eq!(said(annotation, word).is_empty(), is_read, "{annotation} {word}");
        }
    }
}
