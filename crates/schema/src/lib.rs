//! Validates the content of custom resources like kube-apiserver 1.34.
//!
//! A [`StructuralSchema`] is the schema of one version of a CustomResourceDefinition: it drops unknown fields, fills in
//! defaults and returns errors, by the schema and by its CEL rules, with the API server's wording. [`validate_crd`] returns
//! the errors of a definition itself. The embedded API server calls this crate for every request. The controller, and
//! commands that run without a cluster, use it to check whether a server would accept a merged spec.

mod cause;
mod cel;
mod client_config;
mod crd;
mod default;
mod embedded;
mod field;
mod formats;
mod lists;
mod numbers;
mod path;
mod patterns;
mod properties;
mod prune;
mod size;
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
pub use cel::condition::{Variable, check_condition};
pub use cel::types::check_names as check_expression;
pub use client_config::check_client_config;
pub use crd::{default_crd, names_status, terminating, validate_crd};
pub use embedded::go_type;
pub use field::{Field, causes_of};
pub use size::{MAX_OBJECT_BYTES, size, too_large};
pub use structural::{Additional, ListType, Node};

/// The schema of one version of a custom resource. It is cheap to clone, and compiled when it is first used: at start-up most
/// definitions are only registered.
#[derive(Debug, Clone, Default)]
pub struct StructuralSchema {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The schema as JSON text. A tree would take many times the memory, and most schemas are never read.
    text: Cow<'static, str>,
    /// `spec.preserveUnknownFields` of the definition.
    preserve: bool,
    node: OnceLock<Arc<Node>>,
}

/// Schemas in use, by a hash of their text. A definition is registered again whenever its status or another version changes,
/// and then its rules need not be compiled again.
static KNOWN: LazyLock<Mutex<HashMap<u64, Weak<Inner>>>> = LazyLock::new(Mutex::default);

/// The result of a validation.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// Why the object is refused; empty if it is accepted.
    pub causes: Vec<Cause>,
    /// How many of the causes come from the schema; the rest come from CEL rules.
    pub of_schema: usize,
    /// Failed rules for values that did not change. They are tolerated, but reported to the client.
    pub warnings: Vec<String>,
}

// === impl StructuralSchema ===

impl StructuralSchema {
    /// Compiles the schema of `version` (an entry of `spec.versions`) of the definition `crd`, which passed
    /// [`validate_crd`].
    pub fn compile(crd: &Value, version: &Value) -> Self {
        Self::of(&version["schema"]["openAPIV3Schema"], crd["spec"]["preserveUnknownFields"] == true)
    }

    /// Creates a schema from its JSON text.
    pub fn parse(schema: &'static str) -> Self {
        Self::known(Cow::Borrowed(schema), false)
    }

    /// Compiles an `openAPIV3Schema`. `preserve` is `spec.preserveUnknownFields` of its definition.
    pub fn of(schema: &Value, preserve: bool) -> Self {
        // a JSON value can always be serialized
        Self::known(Cow::Owned(serde_json::to_string(schema).unwrap_or_default()), preserve)
    }

    fn known(text: Cow<'static, str>, preserve: bool) -> Self {
        let mut hasher = ahash::AHasher::default();
        (&text, preserve).hash(&mut hasher);
        let key = hasher.finish();
        let mut known = KNOWN.lock();
        // Two texts may have the same hash.
        if let Some(inner) = known.get(&key).and_then(Weak::upgrade)
            && inner.preserve == preserve
            && inner.text == text
        {
            return Self { inner };
        }
        let inner = Arc::new(Inner { text, preserve, node: OnceLock::new() });
        // A new schema comes seldom, and is the only way to grow, so this keeps the map as small as the set of schemas in use.
        known.retain(|_, inner| inner.strong_count() > 0);
        known.insert(key, Arc::downgrade(&inner));
        Self { inner }
    }

    /// The compiled schema of the whole object.
    pub fn root(&self) -> &Node {
        self.inner.node.get_or_init(|| {
            let mut node = Node::compile(&self.inner.text);
            // Nothing shares the root, because no part of a schema has the text of the whole.
            if let Some(node) = Arc::get_mut(&mut node) {
                node.preserve |= self.inner.preserve;
            }
            node
        })
    }

    /// The `openAPIV3Schema` as JSON text; `null` or empty if there is none.
    pub fn source(&self) -> &str {
        &self.inner.text
    }

    /// Drops unknown fields. Returns their paths (`spec.nope`, `spec.items[0].x`) in the reference's order: those in the metadata,
    /// those that the schema lacks, those in embedded metadata, each sorted. Does not fill in defaults: an object that is converted
    /// to this version is only pruned. Floats without a fraction become integers, because Go prints them so.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        numbers::make_whole(object);
        let mut dropped = match object.get_mut("metadata") {
            Some(metadata) => embedded::prune_metadata(metadata, "metadata"),
            None => Vec::new(),
        };
        dropped.extend(prune::prune(object, self.root()));
        dropped.extend(embedded::prune_embedded(object, self.root()));
        dropped
    }

    /// Fills in defaults, then drops nulls that are not allowed. Stops when the defaults have more than [`MAX_OBJECT_BYTES`]: the
    /// object is then too large to be stored, however much is missing.
    pub fn default(&self, object: &mut Value) {
        default::default(object, self.root());
    }

    /// Drops unknown fields and fills in defaults, in the reference's order.
    pub fn prune_and_default(&self, object: &mut Value) {
        self.prune(object);
        self.default(object);
    }

    /// As [`Self::default`], but keeps nulls, which a server-side apply may have set.
    pub fn fill_in(&self, object: &mut Value) {
        default::fill(object, self.root());
    }

    /// Normalises the metadata of a custom resource, and of resources in it, to the form that the reference's types write.
    /// Returns the error of the reference's decoder if that is not possible.
    pub fn coerce_metadata(&self, object: &mut Value) -> Option<String> {
        embedded::coerce(object, self.root(), false)
    }

    /// As [`Self::coerce_metadata`], for what was applied: it keeps its nulls, which validation refuses.
    pub fn coerce_applied_metadata(&self, object: &mut Value) -> Option<String> {
        embedded::coerce(object, self.root(), true)
    }

    /// Returns all errors of `new`. `old` is the stored object on updates, for transition rules and ratcheting.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        self.judge(new, old).causes
    }

    /// Like [`Self::validate`], and also returns the tolerated failures.
    pub fn judge(&self, new: &Value, old: Option<&Value>) -> Verdict {
        let node = self.root();
        let mut causes = validate::check(new, old, node);
        embedded::check(new, node, "", &mut causes);
        // As in kube-apiserver, an object that repeats items already may still be updated.
        let clean_before = old.is_none_or(|old| {
            let mut before = Vec::new();
            lists::check(old, node, &mut before);
            before.is_empty()
        });
        if clean_before {
            lists::check(new, node, &mut causes);
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

/// Whether this cause prevents the evaluation of rules, because the value may not have the structure on which they rely.
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
