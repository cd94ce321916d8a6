//! Detects two services that serve the same model name without sharing a group.

use std::collections::{BTreeMap, BTreeSet};

use longboat_api::{
    foreign::httproute::{HTTPRouteMatch, HTTPRouteSpec},
    reasons::event::MODEL_NAME_COLLISION,
};
use longboat_compose::Warning;
use longboat_key::{Key, Namespace};

use crate::{
    context::Context,
    peer::{group_of, models_of_spec},
};

/// Returns an event about the first other service of the namespace, by name, that serves a model of the same name.
pub(super) fn event(context: &Context) -> Option<Warning> {
    let (namespace, name) = (context.namespace, context.name);
    let own = models_of_spec(context.spec, name);
    let group = group_of(context.spec);
    let (other, model) = context.snapshot.server_of(namespace, &own, |other, peer| {
        other != name && !peer.is_leaving && (group.is_none() || peer.group.as_deref() != group)
    })?;
    let message = format!(
        "model name {model:?} overlaps with {other} in namespace {namespace}; shared publisher paths and model-routing \
         headers cause the gateway to shadow one service. Reachable at its own address {namespace}/{name}; safe to ignore \
         if traffic splitting is planned"
    );
    Some(Warning { reason: MODEL_NAME_COLLISION, message })
}

/// A service with a route.
#[derive(Clone, Debug)]
pub struct RoutedService<'a> {
    /// Its namespace and name.
    pub key: Key,
    /// The models that it serves.
    pub models: BTreeSet<&'a str>,
    /// The group with which it shares its traffic.
    pub group: Option<&'a str>,
    /// Its route.
    pub route: &'a HTTPRouteSpec,
}

/// Two services whose routes match the same requests for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCollision<'a> {
    /// A service.
    pub service: Key,
    /// The first other one, by name.
    pub other: Key,
    /// The model.
    pub model: &'a str,
}

/// Returns for each service the first other one of its namespace that serves a model of the same name at the same Gateway, if they
/// share no group.
pub fn model_collisions<'a>(services: &[RoutedService<'a>]) -> Vec<ModelCollision<'a>> {
    let mut by_model: BTreeMap<(Namespace<&str>, &'a str), Vec<&RoutedService<'a>>> = BTreeMap::new();
    for service in services {
        for model in &service.models {
            by_model.entry((service.key.namespace.as_deref(), model)).or_default().push(service);
        }
    }
    let mut found: BTreeMap<&Key, ModelCollision<'a>> = BTreeMap::new();
    for ((_, model), mut near) in by_model {
        near.sort_by(|one, other| one.key.cmp(&other.key));
        for service in &near {
            let other = near.iter().find(|other| {
                other.key != service.key
                    && (service.group.is_none() || other.group != service.group)
                    && routes_overlap(service.route, other.route)
            });
            let Some(other) = other else { continue };
            let (of, other) = (service.key.clone(), other.key.clone());
            found.entry(&service.key).or_insert(ModelCollision { service: of, other, model });
        }
    }
    found.into_values().collect()
}

/// Whether two routes of one namespace match the same requests of a Gateway.
fn routes_overlap(one: &HTTPRouteSpec, other: &HTTPRouteSpec) -> bool {
    let gateways = |route: &HTTPRouteSpec| {
        let parents = route.parent_refs.iter();
        parents.map(|parent| (parent.namespace.clone(), parent.name.clone())).collect::<BTreeSet<_>>()
    };
    let has_no_host = one.hostnames.is_empty() || other.hostnames.is_empty();
    let matches = |route: &HTTPRouteSpec, rule_match: &HTTPRouteMatch| {
        route.rules.iter().any(|rule| rule.matches.contains(rule_match))
    };
    !gateways(one).is_disjoint(&gateways(other))
        && (has_no_host || one.hostnames.iter().any(|host| other.hostnames.contains(host)))
        && one.rules.iter().flat_map(|rule| &rule.matches).any(|rule_match| matches(other, rule_match))
}
