//! Triggers that KEDA cannot evaluate.

use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_autoscale::{TRIGGER_TYPES, trigger_mistakes};
use longboat_manifest::nearest;

use super::Advice;

/// Finds mistakes in the triggers of both halves.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let halves = [("spec", Some(&spec.workload)), ("spec.prefill", spec.prefill.as_deref())];
    let mut all = Vec::new();
    for (path, half) in halves {
        let keda = half.and_then(|half| half.scaling.as_ref()?.keda.as_ref());
        for (at, trigger) in keda.and_then(|keda| keda.triggers.as_ref()).into_iter().flatten().enumerate() {
            let hint = nearest(TRIGGER_TYPES.iter().copied(), &trigger.type_);
            all.extend(trigger_mistakes(trigger).into_iter().map(|mistake| Advice {
                path: format!("{path}.scaling.keda.triggers[{at}].{}", mistake.field),
                // A later release of KEDA may have more types.
                fatal: mistake.field != "type" || hint.is_some(),
                reason: "TriggerRefused",
                message: format!("{}, so KEDA does not scale the workload", mistake.message),
                hint: hint.filter(|_| mistake.field == "type").map(|hint| format!("did you mean `{hint}`?")),
            }));
        }
    }
    all
}
