//! Services that share the traffic of one model: the members and their weights.
//!
//! Each member splits the traffic in its own route, so that requests to any member reach the whole group. A member gets
//! traffic if it has endpoints, even if its route is not accepted. Otherwise a split would change routes, each changed route
//! would be unaccepted for a moment, its member would leave the split, and the routes of all other members would change again
//! without end.

use std::collections::BTreeSet;

use longboat_api::{
    foreign::httproute::{HTTPBackendRef, HTTPRouteSpec},
    v1alpha2::{GroupMember, GroupStatus},
};
use longboat_key::Name;

use crate::{
    context::Context,
    names,
    peer::{Backend, Peer, group_of, models_of_spec, weight},
};

/// The members of a group that serve the same models as this service.
pub(crate) struct TrafficSplit {
    name: String,
    /// Sorted by name; the service itself is among them.
    members: Vec<GroupMember>,
    /// The models of members that serve other models, sorted.
    divergent: Vec<String>,
}

/// Returns the split of this service's route, or `None` if the service is in no group.
pub(crate) fn split(context: &Context) -> Option<TrafficSplit> {
    let name = group_of(context.spec)?;
    let own_models = models_of_spec(context.spec, context.name);
    let mut members = vec![GroupMember {
        name: context.name.into(),
        weight: weight(context.spec),
        stopped: false,
        // By the spec: the own status may be from before the last change of it.
        backend_ref: Some(own_backend(context).reference()),
    }];
    let mut divergent = BTreeSet::new();
    for (peer_name, peer) in peers(context, name) {
        let stopped = peer.is_stopped;
        if peer.is_leaving || !(stopped || peer.is_routable) {
            continue;
        }
        let mut models = peer.models.iter().map(AsRef::as_ref);
        // The status of a stopped member lists no models, and its raw spec lacks those of its configs. So the lists cannot be equal.
        let same = if stopped {
            models.any(|model| model == context.model_name())
        } else {
            models.eq(own_models.iter().copied())
        };
        if !same {
            divergent.insert(peer.models.join("+"));
            continue;
        }
        members.push(GroupMember {
            weight: peer.weight,
            stopped,
            backend_ref: Some(peer.backend.reference()),
            name: peer_name.to_string(),
        });
    }
    members.sort_by(|a, b| a.name.cmp(&b.name));
    if !divergent.is_empty() {
        divergent.insert(own_models.into_iter().collect::<Vec<_>>().join("+"));
    }
    Some(TrafficSplit { name: name.to_owned(), members, divergent: divergent.into_iter().collect() })
}

/// The other members of the group, by name.
pub(super) fn peers<'a>(context: &Context<'a>, group: &str) -> impl Iterator<Item = (&'a Name, &'a Peer)> {
    let own = context.name;
    context.snapshot.members(context.namespace, Name(group)).filter(move |(name, _)| name.as_deref() != own)
}

fn own_backend(context: &Context) -> Backend {
    match context.spec.scheduler() {
        None => Backend::Service(names::workload_service(context.name).into()),
        Some(scheduler) => match scheduler.external_pool() {
            Some(external) => Backend::Pool(external.into()),
            None => Backend::Pool(names::pool(context.name).into()),
        },
    }
}

// === impl TrafficSplit ===

impl TrafficSplit {
    /// Divides the traffic of every rule that leads to this service and is not for this service alone.
    pub(super) fn apply(&self, context: &Context, spec: &mut HTTPRouteSpec) {
        let own_path = format!("/{}/{}", context.namespace, context.name);
        let below = format!("{own_path}/");
        let own = own_backends(context);
        let shares: Vec<HTTPBackendRef> = self
            .members
            .iter()
            .filter(|member| !member.stopped)
            .filter_map(|member| {
                Some(HTTPBackendRef {
                    backend: member.backend_ref.clone()?,
                    weight: Some(member.weight),
                    ..HTTPBackendRef::default()
                })
            })
            .collect();
        for rule in &mut spec.rules {
            let paths = rule.matches.iter().filter_map(|found| found.path.as_ref()?.value.as_deref());
            let alone = paths.into_iter().any(|path| path == own_path || path.starts_with(&below));
            let ours = rule.backend_refs.iter().any(|reference| own.contains(&reference.backend.name));
            if !alone && ours {
                rule.backend_refs.clone_from(&shares);
            }
        }
    }

    /// The group for the status.
    pub(crate) fn status(&self) -> GroupStatus {
        GroupStatus { name: self.name.clone(), members: self.members.clone() }
    }

    /// Returns a message about the members that serve other models, if there are some.
    pub(crate) fn divergence(&self) -> Option<String> {
        (!self.divergent.is_empty())
            .then(|| format!("group has members with different model sets: {}", self.divergent.join(", ")))
    }
}

/// Returns the members that still send traffic to a service that is being deleted.
pub(crate) fn senders(context: &Context) -> Vec<String> {
    let Some(group) = group_of(context.spec) else { return Vec::new() };
    let own = own_backends(context);
    peers(context, group)
        .filter(|(_, peer)| !peer.is_leaving)
        .map(|(name, _)| name.to_string())
        .filter(|peer| {
            // The stored route decides, not what the peer has planned: Gateways follow what is stored.
            let route = context.snapshot.http_routes.get(context.namespace, Name(&names::route(Name(peer))));
            let rules = route.into_iter().flat_map(|route| &route.spec.rules);
            rules.flat_map(|rule| &rule.backend_refs).any(|reference| own.contains(&reference.backend.name))
        })
        .collect()
}

/// The names of all backends that may stand for this service.
pub(super) fn own_backends(context: &Context) -> [String; 3] {
    let now = own_backend(context).name().to_owned();
    [now, names::pool(context.name), names::workload_service(context.name)]
}
