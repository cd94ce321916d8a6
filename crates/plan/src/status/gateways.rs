//! Whether the Gateways that the service names work.

use std::collections::BTreeMap;

use longboat_api::{
    conditions::{Conditions, types},
    foreign::gateway::Gateway,
    reasons::condition::GATEWAYS_NOT_READY,
};

use super::Reconciled;
use crate::router::gateway::is_programmed;

/// Absent where the service names none: the default Gateway is the platform's affair.
pub(super) fn report(
    reconciled: &Reconciled,
    gateways: &BTreeMap<(String, String), &Gateway>,
    conditions: &mut Conditions,
) {
    if !names_gateways(reconciled) {
        conditions.clear(types::GATEWAYS_READY);
        return;
    }
    let waiting: Vec<String> = gateways
        .iter()
        .filter(|(_, gateway)| !is_programmed(gateway))
        .map(|((namespace, name), _)| format!("{namespace}/{name}"))
        .collect();
    if waiting.is_empty() {
        conditions.mark_true(types::GATEWAYS_READY);
    } else {
        let message = format!("The following Gateways are not ready: [{}]", waiting.join(" "));
        conditions.mark_false(types::GATEWAYS_READY, GATEWAYS_NOT_READY, &message);
    }
}

/// Nothing is known of them in this reconcile.
pub(super) fn forget(conditions: &mut Conditions) {
    conditions.clear(types::GATEWAYS_READY);
}

fn names_gateways(reconciled: &Reconciled) -> bool {
    let router = reconciled.context.spec.router.as_ref();
    router.and_then(|router| router.gateway.as_ref()).is_some_and(|gateway| !gateway.refs.is_empty())
}
