//! The trait for the behaviour of a built-in kind.

use std::fmt::Debug;

use serde_json::Value;

use super::{Field, names::NameRule, update::differs};

/// What the server does with the objects of one built-in kind, beyond what it does with all objects. The default methods are
/// the behaviour of a kind without rules of its own, and of custom resources.
pub trait Strategy: Debug + Sync {
    /// Changes an object before the defaults of its type are filled in.
    fn default(&self, _value: &mut Value) {}

    /// Returns the holder and the name of a field for which this object is refused if it is empty. Go omits empty fields when it encodes an
    /// object, but the error differs between an empty and a missing field.
    fn refused_if_empty(&self, _value: &Value) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Sets the fields that the server controls in a new object.
    fn prepare_create(&self, _value: &mut Value) {}

    /// Sets the fields in a new object that kube-apiserver sets when it reads a stored object. They are not validated.
    fn complete_on_read(&self, _value: &mut Value) {}

    /// Restores the fields that an update cannot change.
    fn prepare_update(&self, _value: &mut Value, _live: &Value) {}

    /// Restores the fields that an update of the status cannot change, beyond spec, data and rules.
    fn prepare_status(&self, _value: &mut Value, _live: &Value) {}

    /// Validates an object. In an update, `live` is the stored object.
    fn validate(&self, _object: &Field<'_>, _live: Option<&Value>) {}

    /// Returns the template of the pods that an object will have, and its path.
    fn template(&self, _value: &Value) -> Option<(&'static str, Value)> {
        None
    }

    /// Validates a status.
    fn validate_status(&self, _object: &Field<'_>) {}

    /// Returns texts for `Warning` headers, about settings that are valid but may surprise the user.
    fn warnings(&self, _value: &Value, _live: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Returns the grace period in seconds.
    fn grace_period_seconds(&self, _stored: &Value, _requested: Option<i64>) -> i64 {
        0
    }

    /// Whether anything other than the finalizers in the metadata delays the deletion of an object.
    fn delays_deletion(&self, _value: &Value) -> bool {
        false
    }

    /// Changes an object that is marked for deletion but is not deleted yet.
    fn terminate(&self, _value: &mut Value) {}

    /// Whether an update changes the desired state, so that the generation rises.
    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        value["spec"] != live["spec"]
    }

    /// The rule for names.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Whether a PUT may create the object if it does not exist.
    fn creates_on_update(&self) -> bool {
        false
    }

    /// Whether the answer to a deletion is the object instead of a Status.
    fn returns_deleted_object(&self) -> bool {
        false
    }

    /// Fields that can select objects, besides name and namespace.
    fn selectable(&self) -> &'static [&'static str] {
        &[]
    }

    /// How many times kube-apiserver validates the metadata in an update. It reports each error that many times.
    fn metadata_validations(&self) -> usize {
        3
    }
}

/// A kind without rules of its own, because nothing runs it: its objects are only stored, with the defaults of their type.
#[derive(Debug)]
pub(crate) struct Plain;

impl Strategy for Plain {
    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        differs(value, live, true)
    }
}
