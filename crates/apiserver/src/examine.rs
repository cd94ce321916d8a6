//! What a server would say to the creation of an object, without a server.
//!
//! The steps are those of a request: [`decode`], admission by whoever asks, [`complete`], [`judge`]. All of them are
//! functions of the object and its resource, which a [`Registry`](crate::kinds::Registry) finds.

use serde_json::Value;

use crate::{kinds::Resource, schema, status::Cause, strategy, verbs::incoming};

/// What decoding found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Why the object cannot be read at all, in the words of the reference's decoder.
    pub mistyped: Option<String>,
    /// Paths of fields that the kind does not have. A request with strict validation fails for them, others lose them.
    pub unknown: Vec<String>,
}

/// What validation found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What is wrong by the schema, the rules for metadata and those of built-in kinds.
    pub causes: Vec<Cause>,
    /// What is wrong by the CEL rules of a custom resource; they are only evaluated on values of the right shape.
    pub rules: Vec<Cause>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// Drops unknown fields and fills in defaults.
pub fn decode(resource: &Resource, value: &mut Value) -> Decoded {
    let mistyped = match resource.custom() {
        Some(custom) => custom.schema.coerce_metadata(value),
        None => schema::mistyped_builtin_field(resource, value),
    };
    if mistyped.is_some() {
        return Decoded { mistyped, unknown: Vec::new() };
    }
    let unknown = incoming::prune(resource, value);
    incoming::default(resource, value);
    Decoded { mistyped, unknown }
}

/// Makes an object complete again that admission changed.
pub fn complete(resource: &Resource, value: &mut Value) {
    incoming::prune(resource, value);
    incoming::default(resource, value);
}

/// Everything wrong with a decoded object that is to be created. What the server adds by itself does not count.
pub fn judge(resource: &Resource, value: &Value) -> Judgement {
    let mut value = value.clone();
    let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
    if text("name").is_empty() && !text("generateName").is_empty() {
        // The server makes a name of this length.
        value["metadata"]["name"] = Value::from(format!("{}xxxxx", text("generateName")));
    }
    strategy::dedupe_owners(&mut value);
    strategy::prepare_create(resource, &mut value);
    let mut causes = strategy::validate(resource, &value, None);
    let mut warnings = strategy::warnings(resource, &value, None);
    let mut rules = Vec::new();
    if let Some(custom) = resource.custom() {
        let mut verdict = custom.schema.judge(&value, None);
        rules = verdict.causes.split_off(verdict.of_schema);
        causes.extend(verdict.causes);
        warnings.extend(verdict.warnings);
    }
    Judgement { causes, rules, warnings }
}
