//! An API key that the engine asks for, and that requests to it do not have.

use longboat_api::{
    annotations::{API_KEYS, SERVING_PROOF},
    engine::EngineKey,
    proof::ProofMode,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};

use crate::{finding::Advice, pods::main_containers};

/// Finds services whose gateway takes the key away, or that are not ready before a request without a key has an answer.
pub(super) fn check(service: &LLMInferenceService, spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut engines = main_containers(spec);
    let Some((path, _)) = engines.find(|(_, container)| EngineKey::of(container).is_some()) else {
        return Vec::new();
    };
    let annotations = service.metadata.annotations.as_ref();
    let is_keyed = annotations.and_then(|all| all.get(API_KEYS)).is_some_and(|value| value == "required");
    let is_gated = ProofMode::of_annotations(annotations) == Ok(Some(ProofMode::Gate));
    let keyed = is_keyed.then(|| {
        Advice::warning(
            format!("metadata.annotations[{API_KEYS}]"),
            "TwoKeys",
            format!(
                "makes Longboat's gateway ask for a key, which it does not pass on, and the engine of {path} asks for one too: it answers \
                 401 to every request"
            ),
            "remove --api-key and VLLM_API_KEY from the engine, or this annotation",
        )
    });
    let gated = is_gated.then(|| {
        Advice::warning(
            format!("metadata.annotations[{SERVING_PROOF}]"),
            "ProofWithoutKey",
            format!("lets the service wait for a request without a key, and the engine of {path} answers 401 to it: it is never ready"),
            "write off, or let the gateway ask for keys in place of the engine",
        )
    });
    keyed.into_iter().chain(gated).collect()
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn a_key_of_the_engine_that_requests_cannot_have_is_warned_about() {
        let with = |annotation: &str, field: &str| {
            let pod = format!(
                "  model: {{uri: 'hf://a/b'}}\n  template: {{containers: [{{name: main, {field}}}]}}\n"
            );
            finding_lines(&service(&format!("a, annotations: {{{annotation}}}"), &pod))
        };
        let key = "env: [{name: VLLM_API_KEY, valueFrom: {secretKeyRef: {name: k, key: k, optional: true}}}]";
        for (annotation, start) in [
            (
                "longboat.dev/api-keys: required",
                "metadata.annotations[longboat.dev/api-keys]: makes Longboat's",
            ),
            (
                "longboat.dev/serving-proof: gate",
                "metadata.annotations[longboat.dev/serving-proof]: lets the",
            ),
        ] {
            let found = with(annotation, key);
            assert!(found.len() == 1 && found[0].contains(&format!(" warning {start}")), "{found:#?}");
            assert_eq!(with(annotation, "args: [--max-num-seqs, '8']"), [""; 0]);
        }
        assert_eq!(with("longboat.dev/serving-proof: report", key), [""; 0]);
    }
}
