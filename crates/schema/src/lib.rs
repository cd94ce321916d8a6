//! What the content of custom resources must look like, as kube-apiserver 1.34 decides it.
//!
//! A [`StructuralSchema`] is one version of a CustomResourceDefinition: it drops unknown fields, fills in defaults and says
//! what is wrong, by the schema and by its CEL rules, in the API server's words. [`validate_crd`] says what is wrong with a
//! definition itself. The embedded API server asks it for every request; the controller and the commands without a
//! cluster ask it whether a server would accept a merged spec.

mod cause;
mod cel;
mod cel_bounds;
mod cel_budget;
mod cel_condition;
mod cel_functions;
mod cel_memo;
mod cel_optional;
mod cel_rules;
mod cel_shape;
mod cel_types;
mod cel_value;
mod client_config;
mod crd;
mod default;
mod embedded;
mod formats;
mod lists;
mod names;
mod numbers;
mod path;
mod patterns;
mod properties;
mod prune;
mod structural;
#[cfg(test)]
mod tests;
mod validate;

use std::{
    borrow::Cow,
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{Arc, LazyLock, OnceLock, Weak},
};

use parking_lot::Mutex;
use serde_json::Value;

pub use cause::Cause;
pub use cel::Program;
pub use cel_condition::{Variable, check_condition};
pub use cel_types::check_names as check_expression;
pub use client_config::check_client_config;
pub use crd::{default_crd, names_status, terminating, validate_crd};
pub use embedded::go_type;
pub use names::subdomain;
use structural::Node;

/// The schema of one version of a custom resource. Cheap to clone, and compiled at its first use: at start-up most
/// definitions are only registered.
#[derive(Debug, Clone, Default)]
pub struct StructuralSchema {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The schema as written, as JSON: a tree of it takes many times the space, and most are never looked at.
    text: Cow<'static, str>,
    /// The schema as written, for OpenAPI documents and for field ownership.
    source: OnceLock<Value>,
    /// `spec.preserveUnknownFields` of the definition.
    preserve: bool,
    node: OnceLock<Arc<Node>>,
}

/// Schemas in use, by a hash of their text: a definition is registered anew with each change of its status or of another
/// version, and its checked rules need not be compiled again for that.
static KNOWN: LazyLock<Mutex<HashMap<u64, Weak<Inner>>>> = LazyLock::new(Mutex::default);

/// What a validation found.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Why the object is refused; empty if it is not.
    pub causes: Vec<Cause>,
    /// How many of the causes are the schema's; CEL rules gave the rest.
    pub of_schema: usize,
    /// Failures of rules on values that did not change: tolerated, but the caller is told.
    pub warnings: Vec<String>,
}

// === impl StructuralSchema ===

impl StructuralSchema {
    /// Compiles the schema of `version` (an entry of `spec.versions`) of the definition `crd`, which passed
    /// [`validate_crd`].
    pub fn compile(crd: &Value, version: &Value) -> Self {
        Self::of(&version["schema"]["openAPIV3Schema"], crd["spec"]["preserveUnknownFields"] == true)
    }

    /// The schema that this JSON says.
    pub fn parse(schema: &'static str) -> Self {
        Self::known(Cow::Borrowed(schema), false)
    }

    fn of(schema: &Value, preserve: bool) -> Self {
        // values made of JSON can be written as JSON
        Self::known(Cow::Owned(serde_json::to_string(schema).unwrap_or_default()), preserve)
    }

    fn known(text: Cow<'static, str>, preserve: bool) -> Self {
        let mut hasher = ahash::AHasher::default();
        (&text, preserve).hash(&mut hasher);
        let key = hasher.finish();
        let mut known = KNOWN.lock();
        if let Some(inner) = known.get(&key).and_then(Weak::upgrade)
            && inner.preserve == preserve
            && inner.text == text
        {
            return Self { inner };
        }
        let inner = Arc::new(Inner { text, source: OnceLock::new(), preserve, node: OnceLock::new() });
        known.retain(|_, inner| inner.strong_count() > 0);
        known.insert(key, Arc::downgrade(&inner));
        Self { inner }
    }

    fn node(&self) -> &Node {
        self.inner.node.get_or_init(|| {
            let mut node = Node::compile(&self.inner.text);
            if let Some(node) = Arc::get_mut(&mut node) {
                node.preserve |= self.inner.preserve;
            }
            node
        })
    }

    /// The `openAPIV3Schema` as written; null if there is none.
    pub fn source(&self) -> &Value {
        self.inner.source.get_or_init(|| self.inner.read())
    }

    /// Dotted paths of fields that pruning will drop (`spec.nope`, `spec.items[0].x`), in the reference's order: of the
    /// metadata, of the schema, of embedded metadata, each sorted.
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        self.prune(&mut object.clone())
    }

    /// Drops unknown fields; their paths as in [`Self::unknown_fields`]. Nothing is defaulted: this is all that happens
    /// to an object that is converted to this version. Floats without a fraction become integers, as wherever Go prints.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        numbers::make_whole(object);
        let mut dropped = match object.get_mut("metadata") {
            Some(metadata) => embedded::prune_metadata(metadata, "metadata"),
            None => Vec::new(),
        };
        dropped.extend(prune::prune(object, self.node()));
        dropped.extend(embedded::prune_embedded(object, self.node()));
        dropped
    }

    /// Fills in defaults, then drops nulls that are not allowed.
    pub fn default(&self, object: &mut Value) {
        default::default(object, self.node());
    }

    /// Drops unknown fields and fills in defaults, in the reference's order.
    pub fn prune_and_default(&self, object: &mut Value) {
        self.prune(object);
        self.default(object);
    }

    /// Fills in defaults alone: nulls stay where applying put them.
    pub fn fill_in(&self, object: &mut Value) {
        default::fill(object, self.node());
    }

    /// Brings the metadata of a custom resource, and of resources in it, into the form of the reference's types; why that
    /// cannot be done, in the words of the reference's decoder, if it cannot.
    pub fn coerce_metadata(&self, object: &mut Value) -> Option<String> {
        embedded::coerce(object, self.node(), false)
    }

    /// As [`Self::coerce_metadata`], for what was applied: it keeps its nulls, which validation refuses.
    pub fn coerce_applied_metadata(&self, object: &mut Value) -> Option<String> {
        embedded::coerce(object, self.node(), true)
    }

    /// Everything wrong with `new`; `old` is the stored object on updates (transition rules, ratcheting).
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        self.judge(new, old).causes
    }

    /// As [`Self::validate`], with the failures that were tolerated.
    pub fn judge(&self, new: &Value, old: Option<&Value>) -> Verdict {
        let node = self.node();
        let mut causes = validate::check(new, old, node, "");
        embedded::check(new, node, "", &mut causes);
        let clean_before = old.is_none_or(|old| {
            let mut before = Vec::new();
            lists::check(old, node, "", &mut before);
            before.is_empty()
        });
        if clean_before {
            lists::check(new, node, "", &mut causes);
        }
        if !node.below.rules {
            return Verdict { of_schema: causes.len(), causes, warnings: Vec::new() };
        }
        if causes.iter().any(blocks_rules) {
            causes.push(Cause::invalid(
                "<nil>",
                &Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            ));
            return Verdict { of_schema: causes.len(), causes, warnings: Vec::new() };
        }
        let judgement = cel::check(new, old, node);
        let of_schema = causes.len();
        causes.extend(judgement.causes);
        Verdict { causes, of_schema, warnings: judgement.warnings }
    }
}

// === impl Inner ===

impl Inner {
    fn read(&self) -> Value {
        // it was written from a tree; the default schema has no text
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// Whether a finding means that rules may not be evaluated: the value may not have the shape that they rely on.
fn blocks_rules(cause: &Cause) -> bool {
    matches!(
        cause.reason,
        "FieldValueNotSupported"
            | "FieldValueRequired"
            | "FieldValueTooLong"
            | "FieldValueTooMany"
            | "FieldValueTypeInvalid"
    )
}
