//! The managed HTTPRoute.

use longboat_api::{
    annotations::{ASKED_FOR, INFERENCE_POOL_MIGRATED, INFERENCE_POOL_MIGRATED_V1},
    foreign::httproute::{HTTPRoute, HTTPRouteSpec},
    labels::{ROUTING_GROUP, component},
    v1alpha2::RouteSpec,
};
use longboat_key::Name;

use super::{group, model_routing, pool_migration};
use crate::{
    children::{Applied, Children},
    context::Context,
    labels, names,
    peer::group_of,
    problem::Problem,
};

/// The composed spec of the managed route. Returns `None` if the user brings routes, or wants none.
pub(crate) fn managed_spec<'a>(context: &Context<'a>) -> Option<&'a HTTPRouteSpec> {
    let route = context.spec.route()?;
    if context.stopped() || !route.refs().is_empty() {
        return None;
    }
    route.http.as_ref()?.spec.as_deref()
}

/// Returns the desired route: the composed spec, with routing by model name if that is on, and with pools in the group that
/// the gateway understands.
pub(super) fn plan(context: &Context) -> Result<Option<HTTPRoute>, Problem> {
    let Some(spec) = managed_spec(context) else { return Ok(None) };
    let mut spec = spec.clone();
    model_routing::apply(context, &mut spec).map_err(Problem::routing_precondition)?;
    let name = names::route(context.name);
    let mut metadata = context.child_metadata(name.clone(), labels::of(component::ROUTER, context.name));
    if !spec.hostnames.is_empty() {
        metadata.annotations = Some(labels::map([(ASKED_FOR, "hostnames")]));
    }
    let managed_pool = context.spec.scheduler().is_some_and(|scheduler| scheduler.external_pool().is_none());
    if managed_pool {
        let live = context.snapshot.http_routes.get(context.namespace, Name(&name));
        let migrated = pool_migration::is_due(live);
        // If the older group is not served, the route uses the newer one. The annotation does not record that, because the
        // older group may be served later.
        let only_newer = !context.snapshot.capabilities.inference_pool_x;
        pool_migration::apply(&mut spec, &names::pool(context.name), migrated || only_newer);
        if migrated {
            let mark = labels::map([(INFERENCE_POOL_MIGRATED, INFERENCE_POOL_MIGRATED_V1)]);
            metadata.annotations.get_or_insert_default().extend(mark);
        }
    }
    // The split is computed after the migration: members refer to each other in the newer group, as their statuses do.
    if let Some(split) = group::split(context) {
        split.apply(context, &mut spec);
        let label = group_of(context.spec).unwrap_or_default().to_owned();
        metadata.labels.get_or_insert_default().insert(ROUTING_GROUP.into(), label);
    }
    Ok(Some(HTTPRoute { metadata, spec, status: None }))
}

/// The routes that count: those that the user names, as observed, and the managed route as the server returned it.
pub(crate) fn in_play<'a>(context: &Context<'a>, applied: &'a Children<Applied>) -> Vec<&'a HTTPRoute> {
    let refs = context.spec.route().into_iter().flat_map(RouteSpec::refs);
    let named =
        refs.filter_map(|route| context.snapshot.http_routes.get(context.namespace, Name(&route.name)));
    named.chain(applied.named(&names::route(context.name))).collect()
}
