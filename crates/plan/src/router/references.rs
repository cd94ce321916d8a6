//! Checks whether the objects exist that the router refers to.

use longboat_api::{
    conditions::types::{GATEWAYS_READY, HTTP_ROUTES_READY},
    foreign::{httproute::HTTPRoute, reference::ParentReference},
    reasons::condition::REFS_INVALID,
};
use longboat_key::{Key, Name, Namespace};

use super::{gateway, route};
use crate::{context::Context, key::Kind, problem::Problem};

/// Fails with a sentence about each missing Gateway or route. Checks in this order: the Gateways that the service names, the
/// routes that it names, the Gateways of the managed route, the Gateways of the named routes.
pub(crate) fn check(context: &Context) -> Result<(), Problem> {
    let gateway_refs = context.spec.gateway_refs();
    let route_refs = context.spec.route().map_or(&[][..], |route| route.refs());
    let managed = route::managed_spec(context);

    let needed = !gateway_refs.is_empty() || !route_refs.is_empty() || managed.is_some();
    if needed {
        let kinds = [Kind::Gateway, Kind::HTTPRoute];
        let namespaces = [context.namespace, context.snapshot.system_namespace.as_deref()];
        context.snapshot.check_listed(&namespaces, &kinds).map_err(Problem::route)?;
    }
    if needed && !context.snapshot.capabilities.gateway_api {
        return Err(Problem::route(
            "the cluster does not serve gateway.networking.k8s.io/v1: install the Gateway API, or remove spec.router.route \
             and spec.router.gateway",
        ));
    }

    let named = gateway_refs.iter().map(|reference| gateway::of_reference(context, reference));
    let missing: Vec<String> =
        missing(context, named).map(|gateway| format!("Gateway {gateway} does not exist")).collect();
    refuse(GATEWAYS_READY, "", &missing)?;

    let namespace = context.namespace;
    let observed = &context.snapshot.http_routes;
    let absent: Vec<String> = route_refs
        .iter()
        .filter(|route| observed.get(namespace, Name(&route.name)).is_none())
        .map(|route| format!("HTTPRoute {namespace}/{} does not exist", route.name))
        .collect();
    refuse(HTTP_ROUTES_READY, "", &absent)?;

    if let Some(spec) = managed {
        let missing: Vec<String> = missing_gateways(context, &spec.parent_refs)
            .map(|gateway| format!("Managed HTTPRoute references non-existent Gateway {gateway}"))
            .collect();
        refuse(HTTP_ROUTES_READY, "", &missing)?;
    }

    let named = route_refs.iter().filter_map(|route| observed.get(namespace, Name(&route.name)));
    let objections: Vec<String> = named.flat_map(|route| objections(context, route)).collect();
    refuse(HTTP_ROUTES_READY, "HTTPRoute target validation failed: ", &objections)
}

fn objections(context: &Context, route: &HTTPRoute) -> Vec<String> {
    let name = format!("HTTPRoute {}", Key::of_metadata(&route.metadata));
    if route.spec.parent_refs.is_empty() {
        return vec![format!("{name} has no parent gateway references")];
    }
    missing_gateways(context, &route.spec.parent_refs)
        .map(|gateway| format!("{name} references non-existent Gateway {gateway}"))
        .collect()
}

fn missing_gateways<'a>(
    context: &'a Context,
    parents: &'a [ParentReference],
) -> impl Iterator<Item = String> + 'a {
    let gateways = parents.iter().filter(|parent| parent.is_gateway());
    missing(context, gateways.map(|parent| gateway::of_parent(context, parent)))
}

/// Returns those of these Gateways that do not exist.
fn missing<'a>(
    context: &'a Context,
    gateways: impl Iterator<Item = (Namespace<&'a str>, Name<&'a str>)> + 'a,
) -> impl Iterator<Item = String> + 'a {
    gateways
        .filter(|(namespace, name)| context.snapshot.gateways.get(*namespace, *name).is_none())
        .map(|(namespace, name)| format!("{namespace}/{name}"))
}

fn refuse(condition: &'static str, prefix: &str, sentences: &[String]) -> Result<(), Problem> {
    if sentences.is_empty() {
        return Ok(());
    }
    Err(Problem::router(condition, REFS_INVALID, format!("{prefix}{}", sentences.join("; "))))
}
