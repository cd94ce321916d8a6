//! The CRDs of other projects, as `scripts/vendor-crds.sh` stores them, and the parts of them that our own CRDs contain.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

macro_rules! documents {
    ($($name:literal),* $(,)?) => {
        [$(include_str!(concat!("../../../../deploy/crds/", $name))),*]
    };
}

/// Parsed at each use, since a process needs them at its start only, and as trees they take megabytes.
const DOCUMENTS: [&str; 9] = documents![
    "gateway.networking.k8s.io_gatewayclasses.yaml",
    "gateway.networking.k8s.io_gateways.yaml",
    "gateway.networking.k8s.io_httproutes.yaml",
    "inference.networking.k8s.io_inferencepools.yaml",
    "inference.networking.x-k8s.io_inferencepools.yaml",
    "leaderworkerset.x-k8s.io_leaderworkersets.yaml",
    "keda.sh_scaledobjects.yaml",
    "serving.kserve.io_servingruntimes.yaml",
    "serving.kserve.io_clusterservingruntimes.yaml",
];

/// Marks a schema that is complete: [`super::inline`] leaves it as it is.
pub(super) const COMPLETE: &str = "x-complete";

/// Checks that the Gateway API's own generator adds to the Go types. KServe's generator does not, so its CRDs accept more.
const ADDED_RULES: [&str; 5] = [
    "sectionName or port must be specified when parentRefs includes 2 or more references to the same parent",
    "sectionName or port must be unique when parentRefs includes 2 or more references to the same parent",
    "Rule name must be unique within the route",
    "filter.externalAuth must be nil if the filter.type is not ExternalAuth",
    "filter.externalAuth must be specified for ExternalAuth filter.type",
];
const ADDED_PATTERN: &str = r"^[!-~]+([\t ]?[!-~]+)*$";
const ADDED_TYPE: &str = "ExternalAuth";

/// Returns the CRDs of Gateway API, and of InferencePool in both groups.
pub fn foreign() -> Vec<Value> {
    DOCUMENTS[..5].iter().map(parsed).collect()
}

/// Returns the CRDs of foreign kinds that the controller writes if a cluster serves them: LeaderWorkerSet and ScaledObject.
/// Local mode has its own controllers for these kinds.
pub fn optional() -> Vec<Value> {
    DOCUMENTS[5..7].iter().map(parsed).collect()
}

/// Returns the CRDs of runtimes, for clusters to which KServe has not brought them.
pub fn runtimes() -> Vec<Value> {
    DOCUMENTS[7..].iter().map(parsed).collect()
}

/// Returns the CRDs of further kinds of the Gateway API, with what the gateway reads of them.
pub fn gateway_kinds() -> Vec<Value> {
    several(include_str!("gateway-kinds.yaml"))
}

/// Returns the CRDs by which users of a picker set priorities and rename models: InferenceObjective and InferenceModelRewrite, in the
/// groups that llm-d's pickers read.
pub fn pickers() -> Vec<Value> {
    several(include_str!("pickers.yaml"))
}

/// Parses embedded documents.
fn several(documents: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(documents).expect("a test reads the embedded files")
}

fn parsed(document: &&str) -> Value {
    serde_saphyr::from_str(document).expect("a test reads the embedded files")
}

/// The spec of an HTTPRoute within a service.
pub(crate) fn route_spec(_: &mut SchemaGenerator) -> Schema {
    part(2, "", &|_| true)
}

/// The spec of an InferencePool within a service.
pub(crate) fn pool_spec(_: &mut SchemaGenerator) -> Schema {
    part(3, "", &|_| true)
}

/// A back end of a route, without what only routes say of it.
pub(crate) fn backend_reference(_: &mut SchemaGenerator) -> Schema {
    part(2, "/properties/rules/items/properties/backendRefs/items", &|name| {
        !["filters", "weight"].contains(&name)
    })
}

/// Returns the part at `pointer` of the spec of a document, with those of its fields that `keep` names.
fn part(document: usize, pointer: &str, keep: &dyn Fn(&str) -> bool) -> Schema {
    let place = format!("/spec/versions/0/schema/openAPIV3Schema/properties/spec{pointer}");
    let mut schema = parsed(&DOCUMENTS[document]).pointer_mut(&place).map(Value::take).unwrap_or_default();
    without_added(&mut schema);
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        fields.retain(|name, _| keep(name));
    }
    schema[COMPLETE] = json!(true);
    Schema::try_from(schema).expect("a test reads this place of the embedded files")
}

fn without_added(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("pattern").is_some_and(|pattern| pattern == ADDED_PATTERN) {
                fields.remove("pattern");
            }
            for (key, added) in [("enum", &[ADDED_TYPE][..]), ("x-kubernetes-validations", &ADDED_RULES)] {
                let Some(Value::Array(list)) = fields.get_mut(key) else { continue };
                let text =
                    |item: &Value| item.as_str().or_else(|| item["message"].as_str()).map(str::to_owned);
                list.retain(|item| !text(item).is_some_and(|text| added.contains(&text.as_str())));
                if list.is_empty() {
                    fields.remove(key);
                }
            }
            fields.values_mut().for_each(without_added);
        }
        Value::Array(items) => items.iter_mut().for_each(without_added),
        _ => {}
    }
}
