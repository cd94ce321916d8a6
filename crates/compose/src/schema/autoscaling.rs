//! Go types: the behavior of HorizontalPodAutoscalers.

use longboat_template::reflect::Ty::{Int, Ptr, Quantity, Slice, Str, Struct};

use super::{opt, req, structure};

structure!(
    HORIZONTAL_POD_AUTOSCALER_BEHAVIOR,
    "v2.HorizontalPodAutoscalerBehavior",
    [
        opt!("scaleUp", "ScaleUp", Ptr(&Struct(&HPA_SCALING_RULES))),
        opt!("scaleDown", "ScaleDown", Ptr(&Struct(&HPA_SCALING_RULES))),
    ]
);

structure!(
    HPA_SCALING_RULES,
    "v2.HPAScalingRules",
    [
        opt!("stabilizationWindowSeconds", "StabilizationWindowSeconds", Ptr(&Int("int32"))),
        opt!("selectPolicy", "SelectPolicy", Ptr(&Str("v2.ScalingPolicySelect"))),
        opt!("policies", "Policies", Slice("", &Struct(&HPA_SCALING_POLICY))),
        opt!("tolerance", "Tolerance", Ptr(&Quantity)),
    ]
);

structure!(
    HPA_SCALING_POLICY,
    "v2.HPAScalingPolicy",
    [
        req!("type", "Type", Str("v2.HPAScalingPolicyType")),
        req!("value", "Value", Int("int32")),
        req!("periodSeconds", "PeriodSeconds", Int("int32")),
    ]
);
