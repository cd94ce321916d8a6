//! What a kind may decide for itself.

use std::{fmt::Debug, sync::Arc};

use serde_json::Value;

use super::{Allocation, names::NameRule};
use crate::{
    kinds::Resource,
    server::State,
    status::{ApiError, Cause},
};

/// What the server does with the objects of one built-in kind, beyond what it does with all objects. Each method has the
/// answer of a kind without rules of its own.
pub(crate) trait Strategy: Debug + Sync {
    /// Fills in the defaults.
    fn default(&self, _value: &mut Value) {}

    /// Sets what the server decides in a new object.
    fn prepare_create(&self, _value: &mut Value) {}

    /// Sets in a new object what the reference sets when it reads a stored one: nothing validates it.
    fn settle(&self, _value: &mut Value) {}

    /// Restores what an update cannot change.
    fn prepare_update(&self, _value: &mut Value, _live: &Value) {}

    /// Restores what an update of the status cannot change, beyond spec, data and rules.
    fn prepare_status(&self, _value: &mut Value, _live: &Value) {}

    /// Everything wrong with an object; `live` is the stored one in an update.
    fn validate(&self, _value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        Vec::new()
    }

    /// Everything wrong with a status.
    fn validate_status(&self, _value: &Value) -> Vec<Cause> {
        Vec::new()
    }

    /// Texts for `Warning` headers about things that work, but not as one may think.
    fn warnings(&self, _value: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Takes what an object holds of the server's own: the addresses of a Service.
    fn allocate(
        &self,
        state: &Arc<State>,
        _resource: &Resource,
        _value: &mut Value,
        _live: Option<&Value>,
    ) -> Result<Allocation, ApiError> {
        Ok(Allocation::nothing(state))
    }

    /// Does what follows from a write: resources appear and disappear with their definitions, addresses are given back.
    fn after_write(&self, _state: &State, _before: Option<&Value>, _after: Option<&Value>) {}

    /// Refuses to delete what must stay.
    fn check_deletion(&self, _resource: &Resource, _name: &str) -> Result<(), ApiError> {
        Ok(())
    }

    /// Seconds that an object has to stop.
    fn grace(&self, _stored: &Value, _asked: Option<i64>) -> i64 {
        0
    }

    /// Whether something besides the finalizers of the metadata keeps a deleted object.
    fn is_held(&self, _value: &Value) -> bool {
        false
    }

    /// Changes an object that is marked for deletion and stays for now.
    fn terminate(&self, _value: &mut Value) {}

    /// Whether an update changes what the user wants, so that the generation rises.
    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        value["spec"] != live["spec"]
    }

    /// The rule for names.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Whether a PUT creates a missing object.
    fn creates_on_update(&self) -> bool {
        false
    }

    /// Whether a deletion is answered with the object rather than with a Status.
    fn shows_deleted(&self) -> bool {
        false
    }

    /// Whether label selectors in the object are typed, so that their empty parts are not written.
    fn has_typed_selectors(&self) -> bool {
        true
    }

    /// Fields that objects can be selected by, besides name and namespace.
    fn selectable(&self) -> &'static [&'static str] {
        &[]
    }

    /// How often the reference validates the content of metadata in an update: it reports each cause so often.
    fn metadata_validations(&self) -> usize {
        3
    }
}

/// A kind without rules of its own.
#[derive(Debug)]
pub(crate) struct Plain;

impl Strategy for Plain {}
