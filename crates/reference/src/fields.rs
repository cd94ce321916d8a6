//! The page of fields, from the CRDs.

use std::fmt::Write as _;

use longboat_api::crd;
use serde_json::Value;

use crate::{NOTE, cell};

/// Makes the page.
pub(crate) fn page() -> String {
    let mut page = format!(
        "# Fields\n\n{NOTE}\n\nFields of `serving.kserve.io/v1alpha2`. On a cluster, `kubectl explain llmisvc.spec` shows the same texts. \
         An object without a list of fields has a type of Kubernetes, the Gateway API or KEDA: see the documentation of that type.\n"
    );
    let crds = crd::own();
    for definition in &crds {
        let kind = definition.pointer("/spec/names/kind").and_then(Value::as_str).unwrap_or_default();
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        let version = versions.into_iter().flatten().find(|version| version["name"] == "v1alpha2");
        let Some(schema) = version.and_then(|version| version.pointer("/schema/openAPIV3Schema")) else {
            continue;
        };
        let _ = write!(page, "\n## {kind}\n\n{}\n", text(schema));
        let same_spec = kind == "LLMInferenceServiceConfig";
        if same_spec {
            page.push_str("\nIts `spec` has the same fields as the `spec` of an LLMInferenceService, and all of them are optional.\n");
        }
        page.push_str("\n| field | type | default | effect |\n|---|---|---|---|\n");
        let properties = &schema["properties"];
        if !same_spec {
            rows(&mut page, "spec", &properties["spec"], &properties["spec"]);
        }
        rows(&mut page, "status", &properties["status"], &properties["spec"]);
    }
    page
}

/// A row for each field below `node`. `top` is the schema of the whole spec, whose fields `prefill` has again.
fn rows(page: &mut String, path: &str, node: &Value, top: &Value) {
    // Only fields of our own types have descriptions here.
    let fields =
        node["properties"].as_object().into_iter().flatten().filter(|(_, field)| !text(field).is_empty());
    for (name, field) in fields {
        let path = format!("{path}.{name}");
        let again = path.starts_with("spec.prefill.") && top["properties"].get(name) == Some(field);
        let (inner, list) = match field.get("items") {
            Some(items) => (items, true),
            None => (field, false),
        };
        let foreign = foreign(inner);
        let effect = if again { format!("Like `spec.{name}`.") } else { text(field) };
        let kind = foreign.map_or_else(
            || kind(field),
            |name| if list { format!("list of {name}") } else { name.to_owned() },
        );
        let default = field.get("default").map(|value| format!("`{value}`")).unwrap_or_default();
        let _ = writeln!(page, "| `{path}` | {kind} | {} | {} |", cell(&default), cell(&effect));
        if !again && foreign.is_none() {
            rows(page, &if list { format!("{path}[]") } else { path }, inner, top);
        }
    }
}

/// Returns the name of a foreign type, which is recognized by fields that no other type has.
fn foreign(schema: &Value) -> Option<&'static str> {
    let has = |name: &str| schema["properties"].get(name).is_some();
    if has("containers") && has("volumes") {
        Some("PodSpec")
    } else if has("parentRefs") && has("rules") {
        Some("HTTPRouteSpec")
    } else if has("targetPorts") || has("extensionRef") {
        Some("InferencePoolSpec")
    } else if has("matchExpressions") {
        Some("LabelSelector")
    } else if has("lastTransitionTime") {
        Some("Condition")
    } else if has("configMapKeyRef") && has("secretKeyRef") {
        Some("EnvVarSource")
    } else {
        None
    }
}

fn text(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().to_owned()
}

fn kind(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "number or string".to_owned();
    }
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", kind(&schema["items"])),
        Some("object") if schema.get("additionalProperties").is_some() => "map".to_owned(),
        Some(kind) => kind.to_owned(),
        None => "any".to_owned(),
    }
}
