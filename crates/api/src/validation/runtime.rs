//! Rules for services whose runtime starts another engine than vLLM.

use longboat_key::names::{SUBDOMAIN, is_subdomain};

use super::Report;
use crate::{engine::Engine, v1alpha2::LLMInferenceServiceSpec};

/// Refuses the names that no runtime can have.
pub(super) fn check_name(spec: &LLMInferenceServiceSpec, report: &mut Report) {
    let Some(runtime) = spec.runtime().filter(|name| !is_subdomain(name)) else { return };
    report.invalid("spec.runtime", &runtime, &format!("no runtime can have this name: {SUBDOMAIN}"));
}

/// Refuses fields that the engine of the runtime cannot have. Only the engines of shipped runtimes are known here; composition
/// checks the others.
pub(super) fn check(spec: &LLMInferenceServiceSpec, report: &mut Report) {
    check_name(spec, report);
    let Some(runtime) = spec.runtime() else { return };
    let Some(engine) = Engine::of_shipped_runtime(runtime) else { return };
    for refused in engine.refused(spec) {
        // Other rules say how to complete what must go. `data` and `dataLocal` need each other, so one prefix is for both.
        report.errors.retain(|error| {
            !error.field.starts_with(refused.field) && !refused.field.starts_with(error.field.as_str())
        });
        report.forbidden(refused.field, &refused.why(engine, runtime));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        conversion::Version,
        validation::{validate_config, validate_create},
    };

    fn fields(spec: Value) -> Vec<String> {
        let mut report = Report::default();
        check(&serde_json::from_value(spec).unwrap(), &mut report);
        report.errors.into_iter().map(|error| format!("{}: {}", error.field, error.detail)).collect()
    }

    #[test]
    fn what_an_engine_cannot_have_is_refused_by_name_with_what_to_use_instead() {
        let sglang = ("kserve-llm-sglang", "SGLang");
        let trtllm = ("longboat-tensorrt-llm", "TensorRT-LLM");
        let llama = ("longboat-llama-cpp", "llama.cpp");
        let adapters = |name: &str| json!([{"name": name, "uri": "hf://a/sql"}]);
        let model = |name: &str, lora: Value| json!({"uri": "hf://a/b", "name": name, "lora": lora});
        for ((runtime, engine), field, value, path, hint) in [
            (sglang, "model", model("a:b", Value::Null), "spec.model.name", "without a colon"),
            (
                sglang,
                "model",
                model("a", json!({"adapters": adapters("b:c")})),
                "spec.model.lora.adapters",
                "without a colon",
            ),
            (
                sglang,
                "model",
                model("a", json!({"adapters": adapters("b"), "maxAdapters": 3, "maxCpuAdapters": 2})),
                "spec.model.lora.maxCpuAdapters",
                "remove the field",
            ),
            (
                sglang,
                "kvCacheOffloading",
                json!({"cpu": "1Gi"}),
                "spec.kvCacheOffloading",
                "args of the container main",
            ),
            (trtllm, "model", model("a", json!({"adapters": adapters("b")})), "spec.model.lora", "vLLM"),
            (trtllm, "prefill", json!({}), "spec.prefill", "remove spec.prefill"),
            (trtllm, "worker", json!({"containers": []}), "spec.worker", "spec.parallelism.tensor"),
            (
                trtllm,
                "parallelism",
                json!({"data": 2, "dataLocal": 2}),
                "spec.parallelism.data",
                "spec.replicas",
            ),
            (trtllm, "parallelism", json!({"dataLocal": 2}), "spec.parallelism.dataLocal", "spec.replicas"),
            (llama, "tracing", json!({}), "spec.tracing", "remove spec.tracing"),
            (llama, "worker", json!({"containers": []}), "spec.worker", "the devices in resources"),
            (llama, "parallelism", json!({"tensor": 2}), "spec.parallelism.tensor", "resources"),
            (llama, "parallelism", json!({"pipeline": 2}), "spec.parallelism.pipeline", "resources"),
            (llama, "parallelism", json!({"expert": true}), "spec.parallelism.expert", "vLLM"),
        ] {
            let spec = |runtime: &str| json!({"runtime": runtime, field: value});
            let found = fields(spec(runtime));
            assert_eq!(found.len(), 1, "{field}: {found:?}");
            assert!(found[0].starts_with(&format!("{path}: ")), "{found:?}");
            assert!(found[0].contains(engine) && found[0].contains(hint), "{found:?}");
            assert!(fields(spec("some-runtime")).is_empty(), "{field}");
        }
        let lora = json!({"adapters": adapters("sql"), "maxAdapters": 2, "maxCpuAdapters": 2});
        let group = json!({"tensor": 2, "data": 4, "dataLocal": 2, "expert": true});
        let fine = json!({
            "runtime": sglang.0, "tracing": {}, "model": model("a", lora), "prefill": {}, "worker": {"containers": []},
            "parallelism": group,
        });
        assert!(fields(fine).is_empty());
        let parallelism = json!({"tensor": 2, "pipeline": 2, "expert": true});
        assert!(fields(json!({"runtime": trtllm.0, "tracing": {}, "parallelism": parallelism})).is_empty());
    }

    #[test]
    fn what_must_go_is_not_to_be_completed() {
        let complete = |spec: Value| {
            let service = json!({"metadata": {"name": "llm"}, "spec": spec});
            let report = validate_create(&serde_json::from_value(service).unwrap(), Version::V1Alpha2);
            report.errors.into_iter().map(|error| error.field).collect::<Vec<_>>()
        };
        let of = |spec: Value| {
            let mut all = json!({"model": {"uri": "hf://a/b"}, "runtime": "longboat-llama-cpp"});
            all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            complete(all)
        };
        assert_eq!(of(json!({"parallelism": {"dataLocal": 2}})), ["spec.parallelism.dataLocal"]);
        assert_eq!(of(json!({"parallelism": {"data": 2}})), ["spec.parallelism.data"]);
        assert_eq!(of(json!({"worker": {"containers": []}})), ["spec.worker"]);
        let both = json!({"parallelism": {"data": 2, "dataLocal": 1, "pipeline": 2}});
        assert_eq!(of(both), ["spec.parallelism.data", "spec.parallelism.pipeline"]);
    }

    #[test]
    fn a_name_that_no_runtime_can_have_is_refused_in_services_and_configs() {
        for (name, is_fine) in
            [("sglang-0.5", true), ("", true), ("My-Runtime", false), ("a/b", false), ("a..b", false)]
        {
            let spec = json!({"model": {"uri": "hf://a/b"}, "runtime": name});
            let object = json!({"metadata": {"name": "llm"}, "spec": spec});
            let service =
                validate_create(&serde_json::from_value(object.clone()).unwrap(), Version::V1Alpha2);
            let config = validate_config(&serde_json::from_value(object).unwrap());
            for report in [service, config] {
                let fields: Vec<_> = report.errors.iter().map(|error| error.field.as_str()).collect();
                assert_eq!(fields, if is_fine { vec![] } else { vec!["spec.runtime"] }, "{name:?}");
            }
        }
    }
}
