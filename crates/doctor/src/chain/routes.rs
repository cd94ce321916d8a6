//! The cause if Gateways do not accept a route.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use longboat_api::{
    foreign::httproute::{HTTPRoute, RouteParentStatus},
    groups,
    v1alpha2::{LLMInferenceService, RouteSpec},
};
use longboat_key::{Name, Namespace};
use longboat_plan::names;

use super::{condition, gateways, reason_and_message};
use crate::{facts::Facts, finding::Cause};

/// The names of the routes of a service: its own, or else the managed one.
pub(crate) fn of_service(service: &LLMInferenceService) -> Vec<String> {
    let refs = service.spec.route().into_iter().flat_map(RouteSpec::refs);
    let named: Vec<String> = refs.map(|found| found.name.clone()).collect();
    if named.is_empty() { vec![names::route(Name::of(&service.metadata))] } else { named }
}

/// Returns what is wrong with a route, or `None` if it works.
pub(crate) fn cause(facts: &Facts, namespace: Namespace<&str>, name: Name<&str>) -> Option<Cause> {
    let step = format!("HTTPRoute {namespace}/{name}");
    let Some(route) = facts.snapshot.http_routes.get(namespace, name) else {
        let fix =
            format!("create that HTTPRoute in {namespace}, or remove it from spec.router.route.http.refs");
        return Some(Cause::new("RouteMissing", format!("there is no HTTPRoute {namespace}/{name}"), fix));
    };
    if route.spec.parent_refs.is_empty() {
        let fix = "name the Gateway that must serve the route in its parentRefs";
        return Some(Cause::new("RouteWithoutGateway", "the route names no Gateway", fix).through(step));
    }
    let parents = route.status.as_ref().map_or(&[][..], |status| &status.parents);
    let found = route.spec.parent_refs.iter().find_map(|parent| {
        let home = parent.namespace.as_deref().map_or(namespace, Namespace);
        let of_it = parents.iter().filter(|status| {
            status.parent_ref.name == parent.name
                && status.parent_ref.namespace.as_deref().map_or(namespace, Namespace) == home
        });
        let mut said_by: Vec<&RouteParentStatus> = of_it.collect();
        said_by.retain(|status| condition(&status.conditions, "Accepted").is_some());
        if said_by.is_empty() {
            // A Gateway without a controller accepts no routes either.
            if !parent.is_gateway() {
                let kind = parent.kind.as_deref().unwrap_or("parent");
                let cause = format!("no controller has written a status for {kind} {home}/{}", parent.name);
                let fix = "read the log of the service mesh's controller, or name a Gateway in parentRefs";
                return Some(Cause::new("RouteNotSeen", cause, fix));
            }
            return Some(gateways::cause(facts, home, Name(&parent.name)).unwrap_or_else(|| {
                let cause = format!("Gateway {home}/{} has written no status for the route", parent.name);
                let fix = format!(
                    "run `kubectl describe gateway -n {home} {}`, and read the log of the Gateway's \
                     controller",
                    parent.name
                );
                Cause::new("RouteNotSeen", cause, fix)
            }));
        }
        said_by.into_iter().find_map(|status| refused(route, status, home))
    });
    found.map(|cause| cause.through(step))
}

fn refused(
    route: &HTTPRoute,
    status: &RouteParentStatus,
    gateway_namespace: Namespace<&str>,
) -> Option<Cause> {
    let (namespace, gateway) =
        (route.metadata.namespace.as_deref().unwrap_or_default(), &status.parent_ref.name);
    let bad = ["Accepted", "ResolvedRefs"]
        .iter()
        .find_map(|type_| condition(&status.conditions, type_).filter(|found| found.status != "True"));
    let Some(bad) = bad else { return stale(route, status) };
    let fix = match bad.reason.as_str() {
        "NotAllowedByListeners" => format!(
            "allow namespace {namespace} in spec.listeners[].allowedRoutes.namespaces of Gateway \
             {gateway_namespace}/{gateway} (`from: All`, or a selector)"
        ),
        "NoMatchingParent" => format!(
            "correct sectionName or port of the route's reference to Gateway \
             {gateway_namespace}/{gateway}, which has no such listener"
        ),
        "NoMatchingListenerHostname" => {
            "change the hostnames of the route: no listener of the Gateway serves any of them".to_owned()
        }
        "BackendNotFound" => {
            format!("run `kubectl get inferencepool,service -n {namespace}` to see which back end is missing")
        }
        "RefNotPermitted" => "create a ReferenceGrant in the namespace of the back end".to_owned(),
        "InvalidKind" if bad.message.contains(groups::OLD_POOL) => {
            format!(
                "write `group: {}` in backendRefs of the route: the Gateway knows no pools of the older group",
                groups::POOL
            )
        }
        "InvalidKind" if !names_pool(route) => {
            "name a Service or an InferencePool in backendRefs of the route, or a Gateway whose controller knows this kind".to_owned()
        }
        "InvalidKind" => {
            "the Gateway's controller does not support InferencePools: enable its inference extension, or \
             remove spec.router.scheduler from the service"
                .to_owned()
        }
        _ => format!(
            "change what the message names in the route or its back ends; `kubectl describe httproute -n {namespace} {}` shows what the \
             Gateway's controller says then",
            route.metadata.name.as_deref().unwrap_or_default()
        ),
    };
    let cause = format!(
        "Gateway {gateway_namespace}/{gateway} reports {}=False: {}",
        bad.type_,
        reason_and_message(bad)
    );
    Some(Cause::new("RouteRefused", cause, fix))
}

fn names_pool(route: &HTTPRoute) -> bool {
    let back_ends = route.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
    back_ends.map(|back_end| back_end.backend.kind.as_deref()).any(|kind| kind == Some("InferencePool"))
}

/// Returns a cause if a status describes an earlier generation of the route.
fn stale(route: &HTTPRoute, status: &RouteParentStatus) -> Option<Cause> {
    let generation = route.metadata.generation?;
    // A controller that does not set the generation may send 0.
    let old =
        |found: &&Condition| found.observed_generation.is_some_and(|seen| seen != 0 && seen < generation);
    let seen = status.conditions.iter().find(old)?.observed_generation?;
    let gateway = &status.parent_ref.name;
    let cause = format!(
        "Gateway {gateway} has processed generation {seen} of the route, but the current generation is \
             {generation}"
    );
    let fix =
        format!("read the log of the Gateway's controller `{}`, which lags behind", status.controller_name);
    Some(Cause::new("RouteStale", cause, fix))
}
