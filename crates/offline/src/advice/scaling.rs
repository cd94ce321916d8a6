//! Triggers that KEDA cannot evaluate.

use longboat_api::v1alpha2::{LLMInferenceServiceSpec, WorkloadSpec};
use longboat_autoscale::{TRIGGER_TYPES, trigger_mistakes};
use longboat_compose::Platform;
use longboat_manifest::nearest;
use longboat_plan::missing_prometheus;

use super::Advice;

/// Finds a scaling by the Workload Variant Autoscaler through KEDA for which the platform names no Prometheus.
pub(super) fn without_prometheus(platform: &Platform, spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let halves = [("spec", Some(&spec.workload)), ("spec.prefill", spec.prefill.as_deref())];
    let by_wva = |half: &&WorkloadSpec| {
        half.scaling.as_ref().and_then(|scaling| scaling.wva.as_ref()).is_some_and(|wva| wva.keda.is_some())
    };
    let (path, _) = halves.into_iter().find(|(_, half)| half.as_ref().is_some_and(by_wva))?;
    Some(Advice::warning(
        format!("{path}.scaling.wva.keda"),
        "NoPrometheus",
        format!("scales nothing: {}", missing_prometheus(platform)?),
        "if the cluster has other settings than these files, pass them too".to_owned(),
    ))
}

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
