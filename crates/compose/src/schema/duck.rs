//! Go types: the fields of every Knative status.

use longboat_template::reflect::Ty::{Int, Map, Ptr, Slice, Str, Struct, Time, Url};

use super::{opt, req, structure};

structure!(
    STATUS,
    "v1.Status",
    [
        opt!("observedGeneration", "ObservedGeneration", Int("int64")),
        opt!("conditions", "Conditions", Slice("v1.Conditions", &Struct(&CONDITION))),
        opt!("annotations", "Annotations", Map("", &Str("string"))),
    ],
    &super::methods::STATUS_METHODS
);

structure!(
    ADDRESSABLE,
    "v1.Addressable",
    [
        opt!("name", "Name", Ptr(&Str("string"))),
        opt!("url", "URL", Ptr(&Url)),
        opt!("CACerts", "CACerts", Ptr(&Str("string"))),
        opt!("audience", "Audience", Ptr(&Str("string"))),
    ]
);

structure!(
    CONDITION,
    "apis.Condition",
    [
        req!("type", "Type", Str("apis.ConditionType")),
        req!("status", "Status", Str("v1.ConditionStatus")),
        opt!("severity", "Severity", Str("apis.ConditionSeverity")),
        opt!("lastTransitionTime", "LastTransitionTime", Time),
        opt!("reason", "Reason", Str("string")),
        opt!("message", "Message", Str("string")),
    ],
    &super::methods::CONDITION_METHODS
);
