//! Routing by the name of the model, for engines that cannot have it.

use longboat_api::{annotations::MODEL_BASED_ROUTING, engine::Engine, v1alpha2::LLMInferenceServiceSpec};

use super::Advice;

/// Finds the annotation of a service whose engine does not serve the name in the header.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let is_asked_for =
        spec.workload.annotations.get(MODEL_BASED_ROUTING).is_some_and(|value| value == "true");
    (is_asked_for && !Engine::serves_published_name(spec)).then(|| {
        Advice::warning(
            format!("spec.annotations[\"{MODEL_BASED_ROUTING}\"]"),
            "RoutingWithoutEffect",
            format!(
                "has no effect: {} serves the model under its own name only, and not as publishers/NAMESPACE/models/NAME, so \
                 the route has no matches of the model header",
                Engine::of_spec(spec).name
            ),
            "remove it, or remove spec.runtime to serve with vLLM".to_owned(),
        )
    })
}
