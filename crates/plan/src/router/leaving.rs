//! Takes the traffic from members of a group that are being deleted. They wait for that, so it must not depend on anything else:
//! not even on whether the service itself can be composed and planned.

use std::collections::BTreeSet;

use longboat_api::{
    foreign::httproute::HTTPRoute,
    labels::{self, ROUTING_GROUP},
    v1alpha2::LLMInferenceServiceStatus,
};
use longboat_key::Name;

use super::group;
use crate::{context::Context, names, owner, peer::Peer};

/// Returns the managed route without the back ends of members that are being deleted, or `None` if it has none of these.
/// Nothing else of the route changes.
///
/// # Errors
/// If another controller owns the route.
pub(crate) fn pruned_route(context: &Context) -> Result<Option<HTTPRoute>, String> {
    let name = names::route(context.name);
    let Some(live) = context.snapshot.http_routes.get(context.namespace, Name(&name)) else {
        return Ok(None);
    };
    let Some(group) = labels::value(&live.metadata, ROUTING_GROUP) else { return Ok(None) };
    let backends = |(name, peer): (&Name, &Peer)| {
        let name = name.as_deref();
        [peer.backend.name().to_owned(), names::pool(name), names::workload_service(name)]
    };
    let (leaving, staying): (Vec<_>, Vec<_>) =
        group::peers(context, group).partition(|(_, peer)| peer.is_leaving);
    // Members may share a pool of the user's.
    let remaining: BTreeSet<String> =
        staying.into_iter().flat_map(backends).chain(group::own_backends(context)).collect();
    let gone: BTreeSet<String> =
        leaving.into_iter().flat_map(backends).filter(|name| !remaining.contains(name)).collect();

    let mut route = live.clone();
    let mut is_pruned = false;
    for rule in &mut route.spec.rules {
        let before = rule.backend_refs.len();
        rule.backend_refs.retain(|reference| !gone.contains(&reference.backend.name));
        is_pruned |= rule.backend_refs.len() != before;
    }
    if !is_pruned {
        return Ok(None);
    }
    if !owner::controls(context.uid, &route.metadata) {
        return Err(format!(
            "cannot prune group HTTPRoute {}/{name}: not controlled by this service",
            context.namespace
        ));
    }
    Ok(Some(route))
}

/// Removes members that are being deleted from the status, which may be that of an earlier reconcile.
pub(crate) fn forget(context: &Context, status: &mut LLMInferenceServiceStatus) {
    let Some(group) = status.router.as_mut().and_then(|router| router.group.as_mut()) else { return };
    let leaving: BTreeSet<String> = group::peers(context, &group.name)
        .filter(|(_, peer)| peer.is_leaving)
        .map(|(name, _)| name.to_string())
        .collect();
    group.members.retain(|member| !leaving.contains(&member.name));
}
