//! Go types: the fields of KEDA's objects.

use longboat_template::reflect::Ty::{Bool, Int, Map, Ptr, Str, Struct};

use super::{opt, req, structure};

structure!(
    SCALE_TRIGGERS,
    "v1alpha1.ScaleTriggers",
    [
        req!("type", "Type", Str("string")),
        opt!("name", "Name", Str("string")),
        opt!("useCachedMetrics", "UseCachedMetrics", Bool("bool")),
        req!("metadata", "Metadata", Map("", &Str("string"))),
        opt!("authenticationRef", "AuthenticationRef", Ptr(&Struct(&AUTHENTICATION_REF))),
        opt!("metricType", "MetricType", Str("v2.MetricTargetType")),
    ]
);

structure!(
    FALLBACK,
    "v1alpha1.Fallback",
    [
        req!("failureThreshold", "FailureThreshold", Int("int32")),
        req!("replicas", "Replicas", Int("int32")),
        opt!("behavior", "Behavior", Str("string")),
    ]
);

structure!(
    ADVANCED_CONFIG,
    "v1alpha1.AdvancedConfig",
    [
        opt!(
            "horizontalPodAutoscalerConfig",
            "HorizontalPodAutoscalerConfig",
            Ptr(&Struct(&HORIZONTAL_POD_AUTOSCALER_CONFIG))
        ),
        opt!("restoreToOriginalReplicaCount", "RestoreToOriginalReplicaCount", Bool("bool")),
        opt!("scalingModifiers", "ScalingModifiers", Struct(&SCALING_MODIFIERS)),
    ]
);

structure!(
    AUTHENTICATION_REF,
    "v1alpha1.AuthenticationRef",
    [req!("name", "Name", Str("string")), opt!("kind", "Kind", Str("string")),]
);

structure!(
    HORIZONTAL_POD_AUTOSCALER_CONFIG,
    "v1alpha1.HorizontalPodAutoscalerConfig",
    [
        opt!("behavior", "Behavior", Ptr(&Struct(&super::autoscaling::HORIZONTAL_POD_AUTOSCALER_BEHAVIOR))),
        opt!("name", "Name", Str("string")),
    ]
);

structure!(
    SCALING_MODIFIERS,
    "v1alpha1.ScalingModifiers",
    [
        opt!("formula", "Formula", Str("string")),
        opt!("target", "Target", Str("string")),
        opt!("activationTarget", "ActivationTarget", Str("string")),
        opt!("metricType", "MetricType", Str("v2.MetricTargetType")),
    ]
);
