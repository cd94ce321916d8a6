//! Decides in which API group the route refers to its pool.
//!
//! Gateways added `inference.networking.k8s.io` at different times. A route starts with the older group, and migrates when
//! its gateway reports that it does not know the older group. An annotation records the migration, so the route never goes
//! back.

use longboat_api::{
    annotations::{INFERENCE_POOL_MIGRATED, INFERENCE_POOL_MIGRATED_V1},
    foreign::httproute::{HTTPRoute, HTTPRouteSpec},
    groups,
};
use longboat_key::Namespace;

use super::acceptance::same_parent;

const POOL: &str = "InferencePool";

/// Whether the route must refer to the newer group.
pub(super) fn is_due(live: Option<&HTTPRoute>) -> bool {
    let Some(live) = live else { return false };
    let mark = live.metadata.annotations.as_ref().and_then(|all| all.get(INFERENCE_POOL_MIGRATED));
    if mark.is_some_and(|value| value == INFERENCE_POOL_MIGRATED_V1) {
        return true;
    }
    match supports_backends(live) {
        Some(true) => uses_group(live, groups::POOL),
        Some(false) => uses_group(live, groups::OLD_POOL),
        None => false,
    }
}

/// Sets the group of the backends that are the service's own pool.
pub(super) fn apply(spec: &mut HTTPRouteSpec, pool: &str, migrated: bool) {
    let group = if migrated { groups::POOL } else { groups::OLD_POOL };
    for backend in
        spec.rules.iter_mut().flat_map(|rule| &mut rule.backend_refs).map(|reference| &mut reference.backend)
    {
        if backend.kind.as_deref() == Some(POOL) && backend.name == pool {
            backend.group = Some(group.to_owned());
        }
    }
}

fn uses_group(route: &HTTPRoute, group: &str) -> bool {
    let backends =
        route.spec.rules.iter().flat_map(|rule| &rule.backend_refs).map(|reference| &reference.backend);
    backends
        .into_iter()
        .any(|backend| backend.group.as_deref() == Some(group) && backend.kind.as_deref() == Some(POOL))
}

/// Whether the gateways of the route know the kinds of its backends. Returns `None` if they have not reported it.
fn supports_backends(route: &HTTPRoute) -> Option<bool> {
    let namespace = Namespace::of(&route.metadata);
    let parents = &route.spec.parent_refs;
    let statuses = route.status.iter().flat_map(|status| &status.parents);
    let ours = statuses.filter(|status| {
        parents.is_empty() || parents.iter().any(|parent| same_parent(parent, &status.parent_ref, namespace))
    });
    let mut rejected = false;
    for resolved in
        ours.flat_map(|status| &status.conditions).filter(|condition| condition.type_ == "ResolvedRefs")
    {
        // Any other verdict, `BackendNotFound` too, comes from a Gateway that knows the kind.
        if resolved.status == "False" && resolved.reason == "InvalidKind" {
            rejected = true;
        } else {
            return Some(true);
        }
    }
    rejected.then_some(false)
}
