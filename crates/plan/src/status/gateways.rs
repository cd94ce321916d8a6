//! Reports whether the Gateways work that the service names.

use std::collections::BTreeMap;

use longboat_api::{
    conditions::{Conditions, types},
    foreign::gateway::Gateway,
    reasons::condition::GATEWAYS_NOT_READY,
};
use longboat_key::Key;

use super::context::StatusContext;
use crate::router::gateway::is_programmed;

/// Clears the condition if the service names no Gateway. The default Gateway belongs to the platform.
pub(super) fn report(
    reconciled: &StatusContext,
    gateways: &BTreeMap<Key, &Gateway>,
    conditions: &mut Conditions,
) {
    if reconciled.context.spec.gateway_refs().is_empty() {
        conditions.clear(types::GATEWAYS_READY);
        return;
    }
    let waiting: Vec<String> = gateways
        .iter()
        .filter(|(_, gateway)| !is_programmed(gateway))
        .map(|(key, _)| key.to_string())
        .collect();
    let message = format!("The following Gateways are not ready: [{}]", waiting.join(" "));
    conditions.mark(types::GATEWAYS_READY, (!waiting.is_empty()).then_some((GATEWAYS_NOT_READY, message)));
}
