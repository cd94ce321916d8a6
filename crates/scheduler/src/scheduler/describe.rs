//! The state of plugins, as data for people.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Scheduler;
use crate::{endpoint::Endpoint, listing::Listing, sessions::Sessions, state::State};

impl Scheduler {
    /// Describes the state of the plugins for people, by the plugin's name: how many prompt prefixes each endpoint holds, the
    /// order in which endpoints took cold requests, the number of sessions per endpoint, and the load in flight.
    pub fn describe(&self, state: &State, endpoints: &[&Arc<Endpoint>], now: u64) -> Value {
        let listing = Listing(endpoints);
        let states = self.producers.iter().zip(&state.producers);
        let described =
            states.filter_map(|(named, state)| Some((named.name.clone(), state.describe(&listing)?)));
        let mut plugins: Map<String, Value> = described.collect();
        let sessions: Vec<_> = state.all().map(|sessions: &Sessions| sessions.live(now)).collect();
        if !sessions.is_empty() {
            plugins.insert("sessions".into(), json!(sessions));
        }
        let in_flight = listing.counts(|slot| {
            let load = state.in_flight.get(slot);
            json!({"requests": load.requests, "tokens": load.tokens})
        });
        json!({"plugins": plugins, "inFlight": in_flight})
    }
}
