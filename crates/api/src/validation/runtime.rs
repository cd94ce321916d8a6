//! Rules for services whose runtime starts another engine than vLLM.

use super::Report;
use crate::{engine::Engine, v1alpha2::LLMInferenceServiceSpec};

/// Refuses fields that the engine of the runtime cannot have. Only the engines of shipped runtimes are known here; composition
/// checks the others.
pub(super) fn check(spec: &LLMInferenceServiceSpec, report: &mut Report) {
    let Some(runtime) = spec.runtime() else { return };
    let Some(engine) = Engine::of_shipped_runtime(runtime) else { return };
    for refused in engine.refused(spec) {
        report.forbidden(refused.field, &refused.why(engine, runtime));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(spec: Value) -> Vec<String> {
        let mut report = Report::default();
        check(&serde_json::from_value(spec).unwrap(), &mut report);
        report.errors.into_iter().map(|error| format!("{}: {}", error.field, error.detail)).collect()
    }

    #[test]
    fn what_sglang_cannot_have_is_refused_by_name_with_what_to_use_instead() {
        let worker = json!({"containers": []});
        for (field, value, hint) in [
            (
                "model",
                json!({"uri": "hf://a/b", "lora": {"adapters": [{"name": "sql", "uri": "hf://a/sql"}]}}),
                "vLLM",
            ),
            ("prefill", json!({}), "remove spec.prefill"),
            ("worker", worker, "spec.parallelism.tensor"),
            ("kvCacheOffloading", json!({"cpu": "1Gi"}), "args of the container main"),
            ("parallelism", json!({"data": 2, "dataLocal": 2}), "spec.replicas"),
            ("parallelism", json!({"pipeline": 2}), "spec.parallelism.tensor"),
            ("parallelism", json!({"expert": true}), "args of the container main"),
        ] {
            let spec = |runtime: &str| json!({"runtime": runtime, field: value});
            let found = fields(spec("kserve-llm-sglang"));
            assert_eq!(found.len(), 1, "{field}: {found:?}");
            assert!(found[0].starts_with(&format!("spec.{field}")), "{found:?}");
            assert!(found[0].contains("SGLang") && found[0].contains(hint), "{found:?}");
            assert!(fields(spec("some-runtime")).is_empty(), "{field}");
        }
        let fine = json!({"runtime": "kserve-llm-sglang", "tracing": {}, "parallelism": {"tensor": 2}});
        assert!(fields(fine).is_empty());
    }
}
