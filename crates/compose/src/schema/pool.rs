//! Go types: `InferencePool` specs.

use longboat_template::reflect::Ty::{Int, Map, Ptr, Slice, Str, Struct};

use super::{opt, structure, zero};

structure!(
    INFERENCE_POOL_SPEC,
    "v1.InferencePoolSpec",
    [
        zero!("selector", "Selector", Struct(&LABEL_SELECTOR)),
        opt!("targetPorts", "TargetPorts", Slice("", &Struct(&PORT))),
        opt!("appProtocol", "AppProtocol", Str("v1.AppProtocol")),
        zero!("endpointPickerRef", "EndpointPickerRef", Struct(&ENDPOINT_PICKER_REF)),
    ]
);

structure!(
    LABEL_SELECTOR,
    "v1.LabelSelector",
    [opt!("matchLabels", "MatchLabels", Map("", &Str("v1.LabelValue"))),]
);

structure!(PORT, "v1.Port", [opt!("number", "Number", Int("v1.PortNumber")),]);

structure!(
    ENDPOINT_PICKER_REF,
    "v1.EndpointPickerRef",
    [
        opt!("group", "Group", Ptr(&Str("v1.Group"))),
        opt!("kind", "Kind", Str("v1.Kind")),
        opt!("name", "Name", Str("v1.ObjectName")),
        opt!("port", "Port", Ptr(&Struct(&PORT))),
        opt!("failureMode", "FailureMode", Str("v1.EndpointPickerFailureMode")),
    ]
);
