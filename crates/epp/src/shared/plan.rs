//! What a replica of the shared picker does next. A pure function of what it sees.
//!
//! The replica that picks for a pool says so in the pool's EndpointSlice, and nobody else has to know its port. A pool moves in this
//! order, so that somebody picks at every moment: the new replica picks, then the slice names it, then the former one closes its
//! port, then it ends the streams that it still has.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use longboat_key::Key;

use super::{
    marked::{MarkedDeployment, Picker},
    replicas::winner,
    slice::{Place, SliceState, key, slice_of, state_of},
};

/// What a replica sees.
#[derive(Debug)]
pub(super) struct ReplicaView<'a> {
    /// The replica's own name and address.
    pub(super) own: (&'a str, IpAddr),
    /// The replicas that can take pools, with their addresses. One that ends is not among them.
    pub(super) replicas: &'a BTreeMap<String, IpAddr>,
    /// The addresses of replicas that end, and pick until others do.
    pub(super) ending: &'a BTreeSet<IpAddr>,
    /// The pickers to share, by their Deployments.
    pub(super) marked: &'a BTreeMap<Key, MarkedDeployment>,
    /// The slices of the shared picker.
    pub(super) slices: &'a BTreeMap<Key, EndpointSlice>,
    /// What this replica hosts, by pool.
    pub(super) hosted: &'a BTreeMap<Key, HostedPool>,
}

/// A pool for which this replica picks, or is to pick.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostedPool {
    pub(super) picker: Picker,
    /// Where it is reached. `None` if its port is not open.
    pub(super) port: Option<u16>,
    /// Whether it takes requests.
    pub(super) serving: bool,
    pub(super) problem: Option<String>,
    /// The limits for which it has refused requests lately.
    pub(super) limit: Option<String>,
}

/// What a replica does.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Step {
    /// The pickers to run with an open port. Others close it, and end when their streams have ended.
    pub(super) host: BTreeMap<Key, Picker>,
    /// Slices to write.
    pub(super) write: Vec<EndpointSlice>,
    /// Slices to delete.
    pub(super) delete: Vec<Key>,
}

/// Returns the next step.
pub(super) fn step(view: &ReplicaView<'_>) -> Step {
    let mut step = Step::default();
    let mut assigned = BTreeSet::new();
    for marked in view.marked.values() {
        let slice = view.slices.get(&key(&marked.deployment));
        // The pool of a picker that needs its pod is not known; its Deployment decides as well who reports that.
        let pool = marked.picker.as_ref().map_or(&marked.deployment, |picker| &picker.spec.pool);
        let hosted = match &marked.picker {
            Ok(picker) => view.hosted.get(&picker.spec.pool),
            // What it picked with before it needed a pod.
            Err(_) => slice.and_then(|slice| of_slice(view, &state_of(slice))),
        };
        // Two Deployments for one pool: the first one counts.
        if marked.picker.is_ok() && !assigned.insert(pool.clone()) {
            continue;
        }
        let is_mine = winner(pool, view.replicas.keys().map(String::as_str)) == Some(view.own.0);
        let current = slice.map(state_of).unwrap_or_default();
        let names_me =
            hosted.is_some_and(|hosted| place(view, hosted) == current.place && current.place.is_some());
        // A container that starts again in its pod keeps the address, but no longer knows what it picked with.
        let is_forgotten = marked.picker.is_err()
            && hosted.is_none()
            && current.place.is_some_and(|named| named.address == view.own.1);
        // The pods of the service answer, so nobody else has to.
        let is_over = marked.picker.is_err() && marked.has_pods;
        match (&marked.picker, hosted) {
            (Ok(picker), _) if is_mine || names_me => {
                step.host.insert(picker.spec.pool.clone(), picker.clone());
            }
            (Err(_), Some(hosted)) if names_me && !is_over => {
                step.host.insert(hosted.picker.spec.pool.clone(), hosted.picker.clone());
            }
            _ => {}
        }
        if is_mine || is_forgotten {
            let current = if is_forgotten { SliceState { place: None, ..current } } else { current };
            let desired = slice_of(marked, &desired(view, marked, hosted, &current, is_over), view.own.1);
            if slice.is_none_or(|slice| differs(&desired, slice)) {
                step.write.push(desired);
            }
        }
    }
    let is_known = |slice: &Key| view.marked.keys().any(|deployment| key(deployment) == *slice);
    for slice in view.slices.keys().filter(|slice| !is_known(slice)) {
        if winner(slice, view.replicas.keys().map(String::as_str)) == Some(view.own.0) {
            step.delete.push(slice.clone());
        }
    }
    step
}

/// What the slice of a pool of this replica is to say.
fn desired(
    view: &ReplicaView<'_>,
    marked: &MarkedDeployment,
    hosted: Option<&HostedPool>,
    current: &SliceState,
    is_over: bool,
) -> SliceState {
    let own = hosted.filter(|hosted| hosted.serving).and_then(|hosted| place(view, hosted));
    // Until this replica picks, another one that lives goes on.
    let lives = |place: &Place| {
        view.ending.contains(&place.address)
            || view.replicas.values().any(|address| *address == place.address)
    };
    let kept = current.place.filter(lives);
    match &marked.picker {
        Ok(_) => SliceState {
            place: own.or(kept),
            need: None,
            problem: hosted.and_then(|hosted| hosted.problem.clone()),
            limit: hosted.and_then(|hosted| hosted.limit.clone()),
        },
        Err(need) => {
            SliceState { place: kept.filter(|_| !is_over), need: Some(need.clone()), ..SliceState::default() }
        }
    }
}

fn place(view: &ReplicaView<'_>, hosted: &HostedPool) -> Option<Place> {
    Some(Place { address: view.own.1, port: hosted.port? })
}

/// What this replica hosts where a slice says.
fn of_slice<'a>(view: &ReplicaView<'a>, state: &SliceState) -> Option<&'a HostedPool> {
    let named = state.place?;
    view.hosted.values().find(|hosted| place(view, hosted) == Some(named))
}

/// Whether a slice says something else than it should.
fn differs(desired: &EndpointSlice, live: &EndpointSlice) -> bool {
    let labels = |slice: &EndpointSlice| slice.metadata.labels.clone().unwrap_or_default();
    let own = labels(desired);
    state_of(desired) != state_of(live)
        || desired.endpoints.len() != live.endpoints.len()
        || own.iter().any(|(name, value)| labels(live).get(name) != Some(value))
        || desired.metadata.owner_references != live.metadata.owner_references
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
