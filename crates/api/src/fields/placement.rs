//! Annotations at places where nothing reads them, and values that do not mean what they say.

use std::collections::BTreeMap;

use crate::annotations::{
    LORA_MODEL_ROUTING_STRATEGY, MODEL_BASED_ROUTING, OF_SERVICES, ROUTING, STOP, is_stopped,
};
use crate::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};

pub(super) const METADATA: &str = "metadata.annotations";
pub(super) const SPEC: &str = "spec.annotations";

/// Returns warnings about the annotations of a service, or of the spec of a config.
pub(super) fn warnings(service: &LLMInferenceService) -> Vec<String> {
    let spec = &service.spec;
    let mut found = Vec::new();
    if let Some(annotations) = &service.metadata.annotations {
        misplaced(METADATA, annotations, &ROUTING, SPEC, &mut found);
        if let Some(value) = annotations.get(STOP)
            && !is_stopped(Some(annotations))
            && !value.eq_ignore_ascii_case("false")
        {
            found.push(format!(
                "{METADATA}[{STOP}] is {value:?}, which does not stop the service: write \"true\" to stop it, or \"false\""
            ));
        }
    }
    misplaced(SPEC, &spec.workload.annotations, &OF_SERVICES, METADATA, &mut found);
    let prefill = spec.prefill.as_deref().map(|prefill| ("spec.prefill.annotations", &prefill.annotations));
    let scheduler =
        spec.scheduler().map(|scheduler| ("spec.router.scheduler.annotations", &scheduler.annotations));
    for (place, annotations) in prefill.into_iter().chain(scheduler) {
        misplaced(place, annotations, &OF_SERVICES, METADATA, &mut found);
        // The presets of prefill pods have the switch for routing too, so it is not worth a warning there.
        misplaced(place, annotations, &[LORA_MODEL_ROUTING_STRATEGY], SPEC, &mut found);
    }
    let routing = spec.workload.annotations.get(MODEL_BASED_ROUTING);
    if let Some(value) =
        routing.filter(|value| !["true", "false"].contains(&value.as_str()) && !value.contains("{{"))
    {
        found.push(format!(
            "{SPEC}[{MODEL_BASED_ROUTING}] is {value:?}, which counts as \"false\": write \"true\" or \"false\""
        ));
    }
    found
}

/// Returns warnings about the annotations of a config itself. Services do not get them.
pub(super) fn config_warnings(config: &LLMInferenceServiceConfig) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(annotations) = &config.metadata.annotations {
        misplaced(METADATA, annotations, &ROUTING, SPEC, &mut found);
        misplaced(METADATA, annotations, &OF_SERVICES, "metadata.annotations of the service", &mut found);
    }
    found
}

fn misplaced(
    place: &str,
    annotations: &BTreeMap<String, String>,
    keys: &[&str],
    right: &str,
    found: &mut Vec<String>,
) {
    let wrong = annotations.keys().filter(|key| keys.contains(&key.as_str()));
    found.extend(wrong.map(|key| format!("{place}[{key}] has no effect here: it belongs in {right}")));
}
