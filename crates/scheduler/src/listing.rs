//! Names of endpoints, for descriptions of state.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::endpoint::{Endpoint, Slot};

/// The most endpoints that are listed for a plugin.
const MAX_LISTED: usize = 100;

/// The endpoints that a description lists.
pub(crate) struct Listing<'a>(pub(crate) &'a [&'a Arc<Endpoint>]);

impl Listing<'_> {
    fn name(&self, slot: Slot) -> Option<String> {
        let found = self.0.iter().find(|endpoint| endpoint.slot == slot);
        found.map(|endpoint| endpoint.full_name())
    }

    /// Returns the names of endpoints, in their order.
    pub(crate) fn names(&self, slots: &[Slot]) -> Vec<String> {
        slots.iter().take(MAX_LISTED).filter_map(|slot| self.name(*slot)).collect()
    }

    /// Returns something for each endpoint, by name.
    pub(crate) fn counts(&self, count: impl Fn(Slot) -> Value) -> Map<String, Value> {
        let listed = self.0.iter().take(MAX_LISTED);
        listed.map(|endpoint| (endpoint.full_name(), count(endpoint.slot))).collect()
    }
}
