//! CustomResourceDefinitions: ours, generated from the Rust types, and those of other projects.
//!
//! schemars describes Rust's types; an API server needs the facts in Go's markers. Three steps add them: [`inline`] resolves
//! references and applies Longboat's marks, [`core_types`] adds the facts of the embedded core types in Go, and [`relax`]
//! relaxes the schemas where KServe does.

mod conversion;
mod core_types;
mod inline;
mod minimal;
mod older;
mod relax;
mod vendored;

pub use conversion::WebhookTarget;
pub use minimal::minimal;
pub(crate) use vendored::{backend_reference, pool_spec, route_spec};
pub use vendored::{foreign, gateway_kinds, optional, pickers, runtimes};

use k8s_openapi::{ListableResource, Resource};
use serde_json::{Value, json};

use crate::v1alpha2;

/// A version of a kind.
struct Version {
    name: &'static str,
    spec: Value,
    status: Value,
}

/// A kind with all its versions; the last one is the storage version.
struct Definition {
    group: &'static str,
    kind: &'static str,
    list_kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    description: &'static str,
    columns: Value,
    conversion: Option<Value>,
    versions: Vec<Version>,
}

/// Returns the CRDs of Longboat's own kinds, for an API server that converts between their versions in its process.
pub fn own() -> Vec<Value> {
    own_with(None)
}

/// Returns the CRDs of Longboat's own kinds, for an API server that converts between their versions by the webhook at `target`.
pub fn own_for(target: &WebhookTarget) -> Vec<Value> {
    own_with(Some(&target.conversion()))
}

/// Both versions: v1alpha1 is served, v1alpha2 is served and stored.
fn own_with(conversion: Option<&Value>) -> Vec<Value> {
    // Generating the schema of the pod types takes most of the time, so it is done once for all kinds and versions.
    let spec = inline::schema_of::<v1alpha2::LLMInferenceServiceSpec>();
    [service(&spec), config(&spec)]
        .map(|definition| Definition { conversion: conversion.cloned(), ..definition }.document())
        .into()
}

/// The structural schema of a service with only a spec, in the storage version and without descriptions, for validating a
/// spec. The example that generates the CRDs also generates this JSON, so that validation does not have to generate it.
pub const SERVICE_SPEC: &str = include_str!("../../generated/service-spec.json");

/// Generates [`SERVICE_SPEC`].
pub fn service_spec() -> Value {
    let mut spec = inline::schema_of::<v1alpha2::LLMInferenceServiceSpec>();
    minimal::without_descriptions(&mut spec);
    let mut schema = json!({"type": "object", "properties": {"metadata": {"type": "object"}}});
    schema["properties"]["spec"] = spec;
    schema
}

/// Returns the name of the file with a CRD: `<group>_<plural>.yaml`.
pub fn file_name(crd: &Value) -> String {
    let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}_{}.yaml", text("/spec/group"), text("/spec/names/plural"))
}

/// Returns a CRD as YAML, with a header that names the generator.
pub fn to_yaml(crd: &Value) -> Result<String, serde_saphyr::ser::Error> {
    let body = serde_saphyr::to_string(crd)?;
    Ok(format!(
        "# Generated from the Rust types by `cargo run -p longboat-api --example crds`; do not edit.\n{body}"
    ))
}

fn service(spec: &Value) -> Definition {
    let columns = json!([
        {"name": "URL", "type": "string", "jsonPath": ".status.url"},
        ready_column(),
        reason_column(),
        age_column(),
        {"name": "URLs", "type": "string", "priority": 1, "jsonPath": ".status.addresses[*].url"},
        {
            "name": "Download", "type": "string", "priority": 1,
            "jsonPath": ".status.conditions[?(@.type=='ModelFetched')].message",
        },
    ]);
    let status = inline::schema_of::<v1alpha2::LLMInferenceServiceStatus>();
    Definition {
        short_names: &["llmisvc"],
        description: "A served large language model: its weights, its workloads, and how clients reach it.",
        columns,
        ..Definition::new::<v1alpha2::LLMInferenceService>(own_versions(spec, &status, |_| {}))
    }
}

fn config(spec: &Value) -> Definition {
    let status = inline::schema_of::<v1alpha2::LLMInferenceServiceConfigStatus>();
    Definition {
        description: "A partial spec that services inherit: a preset of the platform, or a config that a service names in baseRefs.",
        columns: json!([ready_column(), reason_column(), age_column()]),
        ..Definition::new::<v1alpha2::LLMInferenceServiceConfig>(own_versions(
            spec,
            &status,
            relax::for_templates,
        ))
    }
}

/// Returns both versions of one of Longboat's kinds, from the schemas of v1alpha2.
fn own_versions(spec: &Value, status: &Value, relax: impl Fn(&mut Value)) -> Vec<Version> {
    let version = |name, mut spec: Value, status| {
        relax(&mut spec);
        Version { name, spec, status }
    };
    vec![
        version("v1alpha1", older::spec(spec), older::status(status)),
        version("v1alpha2", spec.clone(), status.clone()),
    ]
}

fn ready_column() -> Value {
    json!({"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"})
}

fn reason_column() -> Value {
    json!({"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason"})
}

fn age_column() -> Value {
    json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})
}

// === impl Version ===

impl Version {
    fn schema(self, description: &str) -> Value {
        let mut schema = json!({
            "description": description,
            "type": "object",
            "properties": {
                "apiVersion": {
                    "description": "Group and version of the schema that this object follows.",
                    "type": "string",
                },
                "kind": {"description": "Kind of this object, in CamelCase.", "type": "string"},
                "metadata": {"type": "object"},
            },
        });
        // Assigned instead of written within `json!`, which would copy the values.
        schema["properties"]["spec"] = self.spec;
        schema["properties"]["status"] = self.status;
        schema
    }
}

// === impl Definition ===

impl Definition {
    fn new<K: Resource + ListableResource>(versions: Vec<Version>) -> Self {
        Self {
            group: K::GROUP,
            kind: K::KIND,
            list_kind: K::LIST_KIND,
            plural: K::URL_PATH_SEGMENT,
            short_names: &[],
            description: "",
            columns: Value::Null,
            conversion: None,
            versions,
        }
    }

    fn document(self) -> Value {
        let mut names = json!({
            "kind": self.kind,
            "listKind": self.list_kind,
            "plural": self.plural,
            "singular": self.plural.strip_suffix('s').unwrap_or(self.plural),
        });
        if !self.short_names.is_empty() {
            names["shortNames"] = json!(self.short_names);
        }
        let stored = self.versions.len() - 1;
        let versions = self.versions.into_iter().enumerate().map(|(i, version)| {
            let mut value = json!({
                "name": version.name,
                "served": true,
                "storage": i == stored,
                "subresources": {"status": {}},
            });
            value["schema"]["openAPIV3Schema"] = version.schema(self.description);
            value["additionalPrinterColumns"] = self.columns.clone();
            value
        });
        let mut document = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group,
                "names": names,
                "scope": "Namespaced",
            },
        });
        document["spec"]["versions"] = versions.collect();
        if let Some(conversion) = self.conversion {
            document["spec"]["conversion"] = conversion;
        }
        document
    }
}
