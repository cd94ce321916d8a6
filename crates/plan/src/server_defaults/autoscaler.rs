//! Autoscalers.

use k8s_openapi::api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerSpec};
use longboat_api::foreign::scaledobject::ScaledObjectSpec;

/// `autoscaling/v2` HorizontalPodAutoscalers. If one scaling direction is set, the server fills in both.
pub(crate) fn autoscaler(spec: &mut HorizontalPodAutoscalerSpec) {
    spec.min_replicas.get_or_insert(1);
    let Some(behavior) = &mut spec.behavior else { return };
    let percent = HPAScalingPolicy { type_: "Percent".into(), value: 100, period_seconds: 15 };
    let pods = HPAScalingPolicy { type_: "Pods".into(), value: 4, period_seconds: 15 };
    let up = behavior.scale_up.get_or_insert_default();
    up.stabilization_window_seconds.get_or_insert(0);
    rules(up, &[pods, percent.clone()]);
    rules(behavior.scale_down.get_or_insert_default(), &[percent]);
}

fn rules(rules: &mut HPAScalingRules, policies: &[HPAScalingPolicy]) {
    rules.select_policy.get_or_insert_with(|| "Max".into());
    rules.policies.get_or_insert_with(|| policies.to_vec());
}

/// `keda.sh/v1alpha1` ScaledObjects: the defaults of their CRD.
pub(crate) fn scaled_object(spec: &mut ScaledObjectSpec) {
    if let Some(fallback) = spec.fallback.as_mut().filter(|fallback| fallback.behavior.is_empty()) {
        fallback.behavior = "static".into();
    }
}
