//! Triggers that KEDA cannot evaluate.

use longboat_api::v1alpha2::{LLMInferenceServiceSpec, WorkloadSpec};
use longboat_autoscale::{trigger_mistakes, trigger_types};
use longboat_compose::Platform;
use longboat_manifest::nearest;
use longboat_plan::missing_prometheus;

use crate::{finding::Advice, pods::halves};

/// Finds a scaling by the Workload Variant Autoscaler through KEDA for which the platform names no Prometheus.
pub(super) fn without_prometheus(platform: &Platform, spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let by_wva = |half: &WorkloadSpec| {
        half.scaling.as_ref().and_then(|scaling| scaling.wva.as_ref()).is_some_and(|wva| wva.keda.is_some())
    };
    let (path, _) = halves(spec).find(|(_, half)| by_wva(half))?;
    Some(Advice::warning(
        format!("{path}.scaling.wva.keda"),
        "NoPrometheus",
        format!("scales nothing: {}", missing_prometheus(platform)?),
        "if the cluster has other settings than these files, pass them too",
    ))
}

/// Finds mistakes in the triggers of both halves.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, half) in halves(spec) {
        let keda = half.scaling.as_ref().and_then(|scaling| scaling.keda.as_ref());
        for (at, trigger) in keda.and_then(|keda| keda.triggers.as_ref()).into_iter().flatten().enumerate() {
            let hint = nearest(trigger_types(), &trigger.type_);
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

#[cfg(test)]
mod tests {
    use crate::advice::tests::{said, service};

    #[test]
    fn triggers_that_keda_cannot_evaluate_are_errors() {
        let scaled = |trigger: &str| {
            service(
                "one",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  scaling:\n    maxReplicas: 3\n    keda:\n      triggers:\n      - type: {trigger}\n"
                ),
            )
        };
        let metadata = "\n        metadata: {query: 'sum(a)', serverAddress: 'http://p', threshold: x}";
        let path = "spec.scaling.keda.triggers[0]";
        let not = "so KEDA does not scale the workload";
        assert_eq!(
            said(&scaled("promethues\n        metadata: {}")),
            [format!(
                "10:9 error {path}.type: is \"promethues\", which is no type of KEDA's triggers, {not} (did you mean `prometheus`?)"
            )]
        );
        assert_eq!(
            said(&scaled("tomorrow\n        metadata: {}")),
            [format!(
                "10:9 warning {path}.type: is \"tomorrow\", which is no type of KEDA's triggers, {not}"
            )]
        );
        assert_eq!(
            said(&scaled(&format!("prometheus{metadata}"))),
            [format!(
                "11:64 error {path}.metadata.threshold: is \"x\": expected a number, such as \"5\", {not}"
            )]
        );
        assert_eq!(
            said(&scaled(&format!("prometheus{}", metadata.replace("threshold: x", "threshold: '1'")))),
            [""; 0]
        );
    }
}
