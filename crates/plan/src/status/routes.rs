//! Reports whether Gateways accept the routes.

use longboat_api::{
    conditions::{Conditions, types},
    foreign::httproute::HTTPRoute,
    reasons::condition::{HTTP_ROUTES_NOT_READY, REFS_INVALID},
};
use longboat_key::Key;

use super::context::StatusContext;
use crate::router::acceptance;

/// Reports which route waits for what.
pub(super) fn report(reconciled: &StatusContext, routes: &[&HTTPRoute], conditions: &mut Conditions) {
    if !has_route(reconciled) {
        conditions.clear(types::HTTP_ROUTES_READY);
        return;
    }
    let objections: Vec<String> = routes
        .iter()
        .filter_map(|route| {
            Some(format!("{}: {}", Key::of_metadata(&route.metadata), acceptance::objection(route)?))
        })
        .collect();
    let message = format!("The following HTTPRoutes are not ready: [{}]", objections.join(" "));
    let objection = (!objections.is_empty()).then_some((HTTP_ROUTES_NOT_READY, message));
    conditions.mark(types::HTTP_ROUTES_READY, objection);
}

/// Clears the condition if this reconcile knows nothing about the routes.
pub(super) fn forget(reconciled: &StatusContext, conditions: &mut Conditions) {
    let names_routes = reconciled.context.spec.route().is_some_and(|route| !route.refs().is_empty());
    // A missing reference was reported by an earlier reconcile. This reconcile found every reference, or reports the missing
    // one again.
    let is_reference =
        conditions.get(types::HTTP_ROUTES_READY).is_some_and(|found| found.reason == REFS_INVALID);
    if names_routes || !has_route(reconciled) || is_reference {
        conditions.clear(types::HTTP_ROUTES_READY);
    }
}

fn has_route(reconciled: &StatusContext) -> bool {
    reconciled.context.spec.route().is_some_and(|route| route.http.is_some())
}
