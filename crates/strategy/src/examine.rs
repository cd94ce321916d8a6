//! Examines how a server would answer the creation of an object, without a server.
//!
//! The steps are those of a request: [`decode`], admission by the caller, [`complete`], [`judge`]. All of them are functions
//! of the object and its resource, which a [`Registry`](crate::kinds::Registry) finds.

use longboat_schema::too_large;
use serde_json::Value;

use crate::{Cause, fields, kinds::Resource, plugins};

/// The reason of the cause if an object is too large to be stored. No field is at fault.
pub const TOO_LARGE: &str = "RequestEntityTooLarge";

/// The uid of an object that is not stored.
const NEW_UID: &str = "00000000-0000-0000-0000-000000000000";

/// The result of decoding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecodeReport {
    /// Why the object cannot be decoded at all, in the words of kube-apiserver's decoder.
    pub mistyped: Option<String>,
    /// Paths of fields that the kind does not have. They fail a request with strict validation; other requests lose them.
    pub unknown: Vec<String>,
}

/// The result of validation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValidationReport {
    /// Violations of the schema, of the rules for metadata, and of the rules of built-in kinds.
    pub causes: Vec<Cause>,
    /// Violations of the CEL rules of a custom resource. The rules only run on values of the right shape.
    pub rules: Vec<Cause>,
    /// Why a server would accept the object, and refuse the pods of its template.
    pub pods: Vec<Cause>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Drops unknown fields and fills in defaults.
pub fn decode(resource: &Resource, value: &mut Value) -> DecodeReport {
    let mistyped = match resource.custom() {
        Some(custom) => custom.schema.coerce_metadata(value),
        None => fields::mistyped_builtin_field(resource, value),
    };
    if mistyped.is_some() {
        return DecodeReport { mistyped, unknown: Vec::new() };
    }
    let unknown = crate::prune(resource, value);
    crate::default(resource, value);
    DecodeReport { mistyped, unknown }
}

/// Prunes and defaults an object again after admission has changed it.
pub fn complete(resource: &Resource, value: &mut Value) {
    crate::prune(resource, value);
    crate::default(resource, value);
}

/// Validates a decoded object that is to be created. Fields that the server itself fills in do not count as missing.
///
/// An object that is too large to be stored is refused for this alone: it has not got all of its defaults.
pub fn judge(resource: &Resource, value: &Value) -> ValidationReport {
    if let Some(message) = too_large(value) {
        let causes = vec![Cause { reason: TOO_LARGE, message, field: String::new() }];
        return ValidationReport { causes, ..ValidationReport::default() };
    }
    let mut value = value.clone();
    let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
    if text("name").is_empty() && !text("generateName").is_empty() {
        // The server generates a name of this length.
        value["metadata"]["name"] = Value::from(format!("{}xxxxx", text("generateName")));
    }
    // By which a Job selects its pods.
    value["metadata"]["uid"] = NEW_UID.into();
    crate::dedupe_owners(&mut value);
    let is_pod = resource.built_in().is_some_and(|row| row.group.is_empty() && row.kind == "Pod");
    let mut causes = Vec::new();
    if is_pod {
        causes.extend(plugins::prioritise(&mut value, |_| None).err());
    }
    crate::prepare_create(resource, &mut value);
    causes.extend(crate::validate(resource, &value, None));
    if is_pod {
        causes.extend(plugins::overhead(&value).err());
    }
    let mut warnings = crate::warnings(resource, &value, None);
    let mut rules = Vec::new();
    if let Some(custom) = resource.custom() {
        let mut verdict = custom.schema.judge(&value, None);
        rules = verdict.causes.split_off(verdict.of_schema);
        causes.extend(verdict.causes);
        warnings.extend(verdict.warnings);
    }
    let template = causes.is_empty().then(|| resource.strategy().template(&value)).flatten();
    let pods = template.map(|(path, template)| plugins::causes_of_pods(&template, path)).unwrap_or_default();
    ValidationReport { causes, rules, pods, warnings }
}
