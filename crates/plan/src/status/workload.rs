//! Whether the model server serves (contract/02 §11.8).

use k8s_openapi::api::apps::v1::Deployment;
use longboat_api::{
    conditions::{Conditions, types},
    reasons::condition::PROGRESSING,
};

use super::World;
use crate::names;

/// Reports the one Deployment; what belongs to other topologies is absent.
pub(super) fn report(world: &World, conditions: &mut Conditions) {
    for type_ in [
        types::PREFILL_WORKLOAD_READY,
        types::WORKER_WORKLOAD_READY,
        types::PREFILL_WORKER_WORKLOAD_READY,
        types::SCALING_READY,
        types::PREFILL_SCALING_READY,
    ] {
        conditions.clear(type_);
    }
    if let Some(deployment) = world.applied.deployment(&names::workload(world.context.name)) {
        match objection(deployment) {
            None => conditions.mark_true(types::MAIN_WORKLOAD_READY),
            Some((reason, message)) => conditions.mark_false(types::MAIN_WORKLOAD_READY, &reason, &message),
        }
    }
}

/// Why the Deployment does not serve, by its own words. `Available` decides; before it is reported, a rollout that
/// stopped progressing says why.
fn objection(deployment: &Deployment) -> Option<(String, String)> {
    let mut objection = (PROGRESSING.to_owned(), String::new());
    for condition in deployment.status.iter().flat_map(|status| status.conditions.iter().flatten()) {
        let words = || {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            (text(&condition.reason), text(&condition.message))
        };
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Available", "True") => return None,
            ("Available", _) => return Some(words()),
            ("Progressing", "False") => objection = words(),
            _ => {}
        }
    }
    Some(objection)
}
