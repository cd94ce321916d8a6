//! Custom resources: one version of a CustomResourceDefinition, in the form that the server works with.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use serde_json::Value;

use super::{Origin, Resource, ScalePaths};
use longboat_schema::StructuralSchema;

/// One version of a CustomResourceDefinition.
#[derive(Debug, Clone)]
pub struct Custom {
    /// Name of the definition, `<plural>.<group>`.
    pub crd_name: String,
    /// Compiled schema of this version.
    pub schema: Arc<StructuralSchema>,
    /// Whether the version has a status subresource.
    pub status: bool,
    /// Scale subresource, if any.
    pub scale: Option<ScalePaths>,
    /// `additionalPrinterColumns`.
    pub columns: Vec<Column>,
    /// `selectableFields` as paths without the leading dot.
    pub selectable: Vec<String>,
    /// `spec.conversion.webhook` of the definition, as written. Without one, a conversion only changes `apiVersion`.
    pub webhook: Option<Value>,
    /// `group/version` of the storage version.
    pub stored: String,
    /// Schemas of all versions by `group/version`, also of versions that are not served: objects may be stored in any
    /// version.
    pub schemas: Arc<[(String, Arc<StructuralSchema>)]>,
    /// A hash of the schemas, which differs when a schema differs.
    pub stamp: u64,
    /// The warning that accompanies each answer in a deprecated version.
    pub deprecation: Option<String>,
}

/// One of `additionalPrinterColumns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean`, `date`.
    pub kind: String,
    /// OpenAPI format, may be empty.
    pub format: String,
    /// The description that `kubectl explain` shows.
    pub description: String,
    /// 0 for columns that are always shown; higher for wide output.
    pub priority: i64,
    /// JSONPath within the object.
    pub path: String,
}

// === impl Custom ===

impl Custom {
    /// Returns the schema of a version, which is `group/version`.
    pub fn schema_of(&self, api_version: &str) -> Option<&Arc<StructuralSchema>> {
        self.schemas.iter().find(|(version, _)| version == api_version).map(|(_, schema)| schema)
    }
}

/// Returns the name of the store table for the objects of a definition.
pub fn table(crd: &Value) -> Arc<str> {
    Arc::from(format!("{}/{}", text(&crd["spec"]["group"]), text(&names(crd)["plural"])))
}

fn names(crd: &Value) -> &Value {
    if crd["status"]["acceptedNames"]["plural"].is_string() {
        &crd["status"]["acceptedNames"]
    } else {
        &crd["spec"]["names"]
    }
}

/// Returns the resources that a definition serves, one per served version, the highest version first.
pub fn resources(crd: &Value) -> Vec<Resource> {
    let spec = &crd["spec"];
    let names = names(crd);
    let group = text(&spec["group"]);
    let plural = text(&names["plural"]);
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = versions
        .iter()
        .find(|v| v["storage"] == true)
        .map(|v| format!("{group}/{}", text(&v["name"])))
        .unwrap_or_default();
    let table = table(crd);
    let schemas: Arc<[(String, Arc<StructuralSchema>)]> = versions
        .iter()
        .map(|version| {
            (format!("{group}/{}", text(&version["name"])), Arc::new(StructuralSchema::compile(crd, version)))
        })
        .collect();
    let stamp = stamp(&spec["versions"]);
    let mut resources: Vec<Resource> = versions
        .iter()
        .filter(|v| v["served"] == true)
        .map(|version| {
            let name = text(&version["name"]);
            let kind = text(&names["kind"]);
            let custom = Custom {
                crd_name: format!("{plural}.{group}"),
                schema: schemas
                    .iter()
                    .find(|(version, _)| *version == format!("{group}/{name}"))
                    .map(|(_, schema)| Arc::clone(schema))
                    .unwrap_or_default(),
                status: version["subresources"]["status"].is_object(),
                scale: ScalePaths::of(&version["subresources"]["scale"]),
                columns: columns(&version["additionalPrinterColumns"]),
                selectable: version["selectableFields"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|f| text(&f["jsonPath"]).trim_start_matches('.').to_owned())
                    .collect(),
                webhook: (spec["conversion"]["strategy"] == "Webhook")
                    .then(|| spec["conversion"]["webhook"].clone()),
                stored: stored.clone(),
                schemas: Arc::clone(&schemas),
                stamp,
                deprecation: (version["deprecated"] == true).then(|| {
                    version["deprecationWarning"]
                        .as_str()
                        .map_or_else(|| format!("{group}/{name} {kind} is deprecated"), str::to_owned)
                }),
            };
            Resource {
                group: group.clone(),
                version: name,
                plural: plural.clone(),
                singular: text(&names["singular"]),
                list_kind: names["listKind"].as_str().map_or_else(|| format!("{kind}List"), str::to_owned),
                kind,
                short_names: strings(&names["shortNames"]),
                categories: strings(&names["categories"]),
                namespaced: spec["scope"] == "Namespaced",
                verbs: super::builtin::ALL_VERBS.iter().map(ToString::to_string).collect(),
                table: Arc::clone(&table),
                origin: Origin::Custom(Arc::new(custom)),
            }
        })
        .collect();
    resources.sort_by(|a, b| super::registry::version_order(&b.version, &a.version));
    resources
}

fn stamp(versions: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    versions.hash(&mut hasher);
    // 0 means that the defaults are unchecked
    hasher.finish() | 1
}

fn columns(value: &Value) -> Vec<Column> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| Column {
            name: text(&column["name"]),
            kind: text(&column["type"]),
            format: text(&column["format"]),
            description: text(&column["description"]),
            priority: column["priority"].as_i64().unwrap_or(0),
            path: text(&column["jsonPath"]),
        })
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
