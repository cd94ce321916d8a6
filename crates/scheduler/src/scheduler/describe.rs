//! The state of plugins, as data for people.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    endpoint::{Endpoint, Slot},
    prefixes::PrefixSource,
    state::State,
};

/// The most endpoints that are listed for a plugin.
const LISTED: usize = 100;

pub(super) fn describe(
    prefixes: &[(String, PrefixSource)],
    idle: &[(String, usize, usize)],
    encoder_caches: &[(Arc<str>, usize)],
    state: &State,
    endpoints: &[&Arc<Endpoint>],
    now: u64,
) -> Value {
    let name = |slot: Slot| {
        let found = endpoints.iter().find(|endpoint| endpoint.slot == slot);
        found.map(|endpoint| format!("{}/{}", endpoint.namespace, endpoint.name))
    };
    let counts = |count: &dyn Fn(Slot) -> Value| -> Map<String, Value> {
        let listed = endpoints.iter().take(LISTED);
        listed.filter_map(|endpoint| Some((name(endpoint.slot)?, count(endpoint.slot)))).collect()
    };
    let mut plugins = Map::new();
    let remembered = prefixes.iter().zip(&state.prefixes);
    for ((plugin, source), index) in remembered {
        if matches!(source, PrefixSource::Planned(_)) {
            continue;
        }
        let blocks = counts(&|slot| index.held(slot).into());
        plugins.insert(plugin.clone(), json!({"blocks": blocks, "totalBlocks": index.len()}));
    }
    for ((plugin, capacity, _), order) in idle.iter().zip(&state.idle) {
        let order: Vec<_> = order.order.iter().take(LISTED).filter_map(|slot| name(*slot)).collect();
        plugins.insert(plugin.clone(), json!({"longestUnusedFirst": order, "capacity": capacity}));
    }
    for ((plugin, capacity), caches) in encoder_caches.iter().zip(&state.encoder_caches) {
        let items = counts(&|slot| caches.held(slot).into());
        plugins.insert(plugin.to_string(), json!({"items": items, "capacityPerEndpoint": capacity}));
    }
    let sessions: Vec<_> = state.sessions.iter().map(|sessions| sessions.live(now)).collect();
    if !sessions.is_empty() {
        plugins.insert("sessions".into(), json!(sessions));
    }
    let in_flight = counts(&|slot| {
        let load = state.in_flight.get(slot);
        json!({"requests": load.requests, "tokens": load.tokens})
    });
    json!({"plugins": plugins, "inFlight": in_flight})
}
