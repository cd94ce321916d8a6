//! Reports whether Gateways accept the routes.

use longboat_api::{
    conditions::{Conditions, types},
    foreign::httproute::HTTPRoute,
    reasons::condition::{HTTP_ROUTES_NOT_READY, REFS_INVALID},
    v1alpha2::RouteSpec,
};
use longboat_key::Namespace;

use super::context::StatusContext;
use crate::{
    names,
    router::{acceptance, route},
};

/// The routes that the user names, and the managed route as the server returned it.
pub(super) fn in_play<'a>(reconciled: &StatusContext<'a>) -> Vec<&'a HTTPRoute> {
    let name = names::route(reconciled.context.name);
    let applied: &'a [HTTPRoute] = &reconciled.applied.http_routes;
    let managed = applied.iter().find(|route| route.metadata.name.as_ref() == Some(&name));
    route::in_play(&reconciled.context, managed)
}

/// Reports which route waits for what.
pub(super) fn report(reconciled: &StatusContext, routes: &[&HTTPRoute], conditions: &mut Conditions) {
    if !has_route(reconciled) {
        conditions.clear(types::HTTP_ROUTES_READY);
        return;
    }
    let objections: Vec<String> = routes
        .iter()
        .filter_map(|route| {
            let objection = acceptance::objection(route)?;
            let namespace =
                route.metadata.namespace.as_deref().map_or(reconciled.context.namespace, Namespace);
            Some(format!("{namespace}/{}: {objection}", route.metadata.name.as_deref().unwrap_or_default()))
        })
        .collect();
    if objections.is_empty() {
        conditions.mark_true(types::HTTP_ROUTES_READY);
    } else {
        let message = format!("The following HTTPRoutes are not ready: [{}]", objections.join(" "));
        conditions.mark_false(types::HTTP_ROUTES_READY, HTTP_ROUTES_NOT_READY, &message);
    }
}

/// Clears the condition if this reconcile knows nothing about the routes.
pub(super) fn forget(reconciled: &StatusContext, conditions: &mut Conditions) {
    let refs = reconciled
        .context
        .spec
        .router
        .iter()
        .filter_map(|router| router.route.as_ref())
        .flat_map(RouteSpec::refs);
    // A missing reference was reported by an earlier reconcile. This reconcile found every reference, or reports the missing
    // one again.
    let is_reference =
        conditions.get(types::HTTP_ROUTES_READY).is_some_and(|found| found.reason == REFS_INVALID);
    if refs.count() > 0 || !has_route(reconciled) || is_reference {
        conditions.clear(types::HTTP_ROUTES_READY);
    }
}

fn has_route(reconciled: &StatusContext) -> bool {
    let router = reconciled.context.spec.router.as_ref();
    router.and_then(|router| router.route.as_ref()).is_some_and(|route| route.http.is_some())
}
