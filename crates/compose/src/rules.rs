//! The rules by which composition creates or changes values after the layers are merged, by path.

use serde_json::Value;

/// The start and end of a path, and a description of its rule.
const RULES: [(&str, &str, &str); 10] = [
    (
        "router.scheduler.pool.spec.selector.matchLabels",
        "",
        "the pods of the service: no layer sets a selector",
    ),
    (
        "router.scheduler.template.serviceAccountName",
        "",
        "the ServiceAccount of the scheduler: no layer sets one",
    ),
    ("router.route.http.spec.parentRefs", "", "the Gateways of spec.router.gateway.refs"),
    ("router.route.http.spec.rules", ".name", "the back end according to spec.router.scheduler"),
    ("router.route.http.spec.rules", ".kind", "the back end according to spec.router.scheduler"),
    ("router.route.http.spec.rules", ".group", "the back end according to spec.router.scheduler"),
    ("router.scheduler.config.inline", "", "the ConfigMap that spec.router.scheduler.config.ref names"),
    ("router.scheduler.pool.spec.endpointPickerRef.port", "", "the port of the picker: no layer sets one"),
    ("model.name", "", "the name of the service: no layer sets one"),
    ("", "", "a rewrite after merging"),
];

/// The rule for an object or list that is empty because a null removed its content.
pub(crate) const EMPTIED: &str = "a null removes the fields that a layer sets in it";

/// The value of a leaf in its layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Says<'a> {
    /// No layer has the leaf.
    Nothing,
    /// A value.
    Value(&'a Value),
    /// A template with this output.
    Printed(&'a str),
    /// A template whose output depends on the whole document.
    Unknown,
}

/// The rule for a value that differs from the value in its layer.
pub(crate) fn of(path: &str, value: &Value, says: Says<'_>) -> Option<&'static str> {
    match says {
        Says::Value(said) if said == value => return None,
        Says::Printed(said) if value == said => return None,
        Says::Unknown => return None,
        _ => {}
    }
    if path.contains(".claims[") || path.contains("resourceClaims[") {
        return Some("the devices of annotation serving.kserve.io/exp-dra-device-class");
    }
    RULES
        .iter()
        .find(|(start, end, _)| path.starts_with(start) && path.ends_with(end))
        .map(|(.., rule)| *rule)
}
