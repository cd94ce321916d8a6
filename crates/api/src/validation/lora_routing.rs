//! Rules for the annotation that says how a route matches the names of LoRA adapters.

use super::Report;
use crate::{
    annotations::LORA_MODEL_ROUTING_STRATEGY,
    lora_routing::{LoRaRoutingStrategy, UnsupportedStrategy},
    v1alpha2::LLMInferenceService,
};

/// Refuses a value that names no strategy.
pub(super) fn check(service: &LLMInferenceService, report: &mut Report) {
    let annotations = &service.spec.workload.annotations;
    if let Err(UnsupportedStrategy { value, .. }) = LoRaRoutingStrategy::of_annotations(annotations) {
        let field = format!("spec.annotations[{LORA_MODEL_ROUTING_STRATEGY}]");
        report.not_supported(field, &value, "supported values: \"exact\", \"regex\"");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(word: &str) -> Vec<String> {
        let service = json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            // The key has no meaning in the metadata.
            "metadata": {"name": "llm", "annotations": {LORA_MODEL_ROUTING_STRATEGY: "no strategy"}},
            "spec": {"model": {"uri": "hf://a/b"}, "annotations": {LORA_MODEL_ROUTING_STRATEGY: word}},
        });
        let mut report = Report::default();
        check(&serde_json::from_value(service).unwrap(), &mut report);
        report
            .errors
            .iter()
            .map(|error| format!("{}: {}", error.field, error.message(ToString::to_string)))
            .collect()
    }

    #[test]
    fn a_value_that_names_no_strategy_is_refused_by_the_annotations_name() {
        for known in ["", "  ", "exact", "Regex", " REGEX\n"] {
            assert_eq!(refused(known), Vec::<String>::new(), "{known:?}");
        }
        assert_eq!(
            refused("regexp"),
            [
                "spec.annotations[serving.kserve.io/lora-model-routing-strategy]: Unsupported value: \"regexp\": supported \
                 values: \"exact\", \"regex\""
            ]
        );
    }
}
