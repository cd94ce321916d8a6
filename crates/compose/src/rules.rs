//! The rules by which composition creates or changes values after the layers are merged, by path.

use serde_json::Value;

/// The start and end of a path, and a description of its rule.
const RULES: [(&str, &str, &str); 10] = [
    ("router.scheduler.pool.spec.selector.matchLabels", "", "the pool's own pods: no layer gives a selector"),
    (
        "router.scheduler.template.serviceAccountName",
        "",
        "the managed scheduler's account: no layer names one",
    ),
    ("router.route.http.spec.parentRefs", "", "the Gateways of spec.router.gateway.refs"),
    ("router.route.http.spec.rules", ".name", "the back end that fits spec.router.scheduler"),
    ("router.route.http.spec.rules", ".kind", "the back end that fits spec.router.scheduler"),
    ("router.route.http.spec.rules", ".group", "the back end that fits spec.router.scheduler"),
    ("router.scheduler.config.inline", "", "the ConfigMap that spec.router.scheduler.config.ref names"),
    ("router.scheduler.pool.spec.endpointPickerRef.port", "", "the picker's port: none is given"),
    ("model.name", "", "the service's name: none is given"),
    ("", "", "a rewrite after merging"),
];

/// The rule for an object or list that is empty because a null removed its content.
pub(crate) const EMPTIED: &str = "a null takes away what a layer sets in it";

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
