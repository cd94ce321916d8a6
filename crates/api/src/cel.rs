//! CEL rules of the schemas of Longboat's kinds.
//!
//! KServe's CRDs have some rules without `has()`. Here these rules are guarded, so that every object that KServe's webhook
//! accepts is accepted.

use serde_json::{Value, json};

/// Creates a list of rules from pairs of rule and message.
fn rules(list: &[(&str, &str)]) -> Value {
    list.iter().map(|(rule, message)| json!({"message": message, "rule": rule})).collect()
}

/// The rule CEL-1.
pub(crate) fn workload() -> Value {
    rules(&[(
        "!(has(self.replicas) && has(self.scaling))",
        "replicas and scaling are mutually exclusive; use scaling for autoscaled deployments or replicas for static deployments",
    )])
}

/// The rules CEL-2 to CEL-9.
pub(crate) fn scaling() -> Value {
    const IDLE_NEEDS_MIN: &str = "minReplicas is required when idleReplicaCount is set";
    const IDLE_BELOW_MIN: &str = "idleReplicaCount must be less than minReplicas; idleReplicaCount defines the replica floor when no triggers are active";
    rules(&[
        (
            "has(self.wva) || has(self.keda)",
            "either wva or keda must be specified when scaling is configured",
        ),
        ("!(has(self.wva) && has(self.keda))", "wva and keda are mutually exclusive"),
        (
            "!has(self.keda) || size(self.keda.triggers) > 0",
            "at least one trigger is required when using direct KEDA scaling",
        ),
        (
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas cannot exceed maxReplicas",
        ),
        (
            "!has(self.wva) || !has(self.wva.keda) || !has(self.wva.keda.idleReplicaCount) || has(self.minReplicas)",
            IDLE_NEEDS_MIN,
        ),
        (
            "!has(self.wva) || !has(self.wva.keda) || !has(self.wva.keda.idleReplicaCount) || !has(self.minReplicas) || self.wva.keda.idleReplicaCount < self.minReplicas",
            IDLE_BELOW_MIN,
        ),
        ("!has(self.keda) || !has(self.keda.idleReplicaCount) || has(self.minReplicas)", IDLE_NEEDS_MIN),
        (
            "!has(self.keda) || !has(self.keda.idleReplicaCount) || !has(self.minReplicas) || self.keda.idleReplicaCount < self.minReplicas",
            IDLE_BELOW_MIN,
        ),
    ])
}

/// The rules CEL-10 to CEL-12, the first with guards.
pub(crate) fn wva() -> Value {
    rules(&[
        (
            "!has(self.keda) || !has(self.keda.advanced) || !has(self.keda.advanced.scalingModifiers) || ((!has(self.keda.advanced.scalingModifiers.formula) || size(self.keda.advanced.scalingModifiers.formula) == 0) && (!has(self.keda.advanced.scalingModifiers.target) || size(self.keda.advanced.scalingModifiers.target) == 0) && (!has(self.keda.advanced.scalingModifiers.activationTarget) || size(self.keda.advanced.scalingModifiers.activationTarget) == 0) && (!has(self.keda.advanced.scalingModifiers.metricType) || size(self.keda.advanced.scalingModifiers.metricType) == 0))",
            "scalingModifiers must not be set; WVA controls the scaling metric formula and logic",
        ),
        (
            "!(has(self.hpa) && has(self.keda))",
            "hpa and keda are mutually exclusive; choose one actuator backend",
        ),
        ("has(self.hpa) || has(self.keda)", "either hpa or keda must be specified as the actuator backend"),
    ])
}

/// The rule CEL-13, with guards.
pub(crate) fn keda() -> Value {
    rules(&[(
        "!has(self.advanced) || !has(self.advanced.horizontalPodAutoscalerConfig) || !has(self.advanced.horizontalPodAutoscalerConfig.name) || size(self.advanced.horizontalPodAutoscalerConfig.name) == 0",
        "horizontalPodAutoscalerConfig.name must not be set; the controller manages the HPA name",
    )])
}
