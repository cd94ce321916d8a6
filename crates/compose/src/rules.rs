//! The rules by which composition creates or changes values after the layers are merged, by path.

use serde_json::Value;

/// The path of the picker's configuration.
const INLINE_CONFIG: &str = "router.scheduler.config.inline";

/// The start and end of a path, and a description of its rule.
const RULES: [(&str, &str, &str); 11] = [
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
    ("", ".env[name=KSERVE_KV_TRANSFER_ARGS].value", "the argument for kvCacheOffloading"),
    ("", ".emptyDir.sizeLimit", "kvCacheOffloading.cpu, and room for it, is added to what the preset sets"),
    (INLINE_CONFIG, "", "the ConfigMap that spec.router.scheduler.config.ref names"),
    ("router.scheduler.pool.spec.endpointPickerRef.port", "", "the port of the picker: no layer sets one"),
    ("model.name", "", "the name of the service: no layer sets one"),
];

/// The rule for an object or list that is empty because a null removed its content.
pub(crate) const EMPTIED: &str = "a null removes the fields that a layer sets in it";

/// The rule that created or changed the value at a path. `merged` is the spec before the rules.
pub(crate) fn of(path: &str, merged: &Value) -> &'static str {
    if path.starts_with(INLINE_CONFIG) && merged.pointer("/router/scheduler/config/ref").is_none() {
        return "the scorer for the adapters of spec.model.lora";
    }
    if path.contains(".claims[") || path.contains("resourceClaims[") {
        return "the devices of annotation serving.kserve.io/exp-dra-device-class";
    }
    let rule = RULES.iter().find(|(start, end, _)| path.starts_with(start) && path.ends_with(end));
    rule.map_or("a rewrite after merging", |(.., rule)| *rule)
}
