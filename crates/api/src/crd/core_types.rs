//! Adds facts about the embedded core types that their Go types have and k8s-openapi's schemas lack: list types, defaults,
//! quantities.

use longboat_types::{DefaultValue, MAP_TYPE, TypeDef, field_markers, type_def, type_markers};
use serde_json::{Map, Value, json};

/// The pattern of a quantity, as in the output of controller-gen.
const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Completes the schema of a core type.
pub(super) fn complete(type_name: &str, schema: &mut Map<String, Value>) {
    match type_name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            int_or_string(schema);
            schema.insert("pattern".to_owned(), json!(QUANTITY));
            return;
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => return int_or_string(schema),
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" => {
            *schema = embedded_metadata();
            return;
        }
        "io.k8s.apimachinery.pkg.apis.meta.v1.Condition" => constrain_condition(schema),
        _ => {}
    }
    schema.extend(type_markers(type_name));
    let def = type_def(type_name);
    if def.is_some_and(embeds_an_atomic_struct) {
        schema.insert(MAP_TYPE.to_owned(), json!("atomic"));
    }
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (field, property) in properties {
        let Value::Object(property) = property else { continue };
        property.extend(field_markers(type_name, field));
        if let Some(DefaultValue::Schema(default)) = def.and_then(|def| def.field(field)?.default.as_ref()) {
            property.insert("default".to_owned(), default.clone());
        }
    }
}

/// Whether the type embeds an atomic struct. Go's schema generator applies the marker of that struct to the whole type, but the
/// built-in kinds do not.
fn embeds_an_atomic_struct(def: &TypeDef) -> bool {
    def.embedded().any(|(_, name)| type_def(name).is_some_and(|embedded| embedded.atomic))
}

/// The schema of a pod's volume claim metadata. Without properties, the API server would silently prune all of it.
fn embedded_metadata() -> Map<String, Value> {
    let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let properties = json!({
        "annotations": strings,
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": strings,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    });
    Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), properties)])
}

fn int_or_string(schema: &mut Map<String, Value>) {
    schema.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    schema.insert("x-kubernetes-int-or-string".to_owned(), json!(true));
}

/// Adds validation markers of `metav1.Condition` that its OpenAPI does not show.
fn constrain_condition(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let rules = [
        ("message", json!({"maxLength": 32768})),
        ("observedGeneration", json!({"minimum": 0})),
        (
            "reason",
            json!({"minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}),
        ),
        ("status", json!({"enum": ["True", "False", "Unknown"]})),
        (
            "type",
            json!({
                "maxLength": 316,
                "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            }),
        ),
    ];
    for (field, rule) in rules {
        if let (Some(Value::Object(property)), Value::Object(rule)) = (properties.get_mut(field), rule) {
            property.extend(rule);
        }
    }
}
