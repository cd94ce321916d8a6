//! Computes the statuses of GatewayClasses, Gateways, ListenerSets, HTTPRoutes, InferencePools and BackendTLSPolicies. Pure
//! functions: the same objects give the same statuses. The result omits objects whose status is already up to date.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use longboat_api::foreign::{
    backendtlspolicy::{BackendTLSPolicy, BackendTLSPolicyStatus, PolicyAncestorStatus},
    gateway::{Gateway, GatewayStatus, ListenerStatus},
    gatewayclass::{GatewayClass, GatewayClassStatus, SupportedFeature},
    httproute::{HTTPRoute, HTTPRouteStatus, RouteParentStatus},
    inferencepool::{InferencePool, InferencePoolStatus, PoolParentReference, PoolParentStatus},
    listenerset::{ListenerSet, ListenerSetStatus},
    reference::ParentReference,
};
use longboat_key::Key;

use crate::{
    CONTROLLER_NAME, RoutingInputs,
    attach::{Attachment, counted},
    client_certificates,
    features::FEATURES,
    gateways,
    grants::GATEWAY_GROUP,
    listeners::{Listener, ServedGateway, ServedSet},
    observed::has_key,
    problem::{Problem, UNSUPPORTED_VALUE},
    resolved::{Resolved, ResolvedRoute},
    route::{picker_missing, pool_keys, service_keys, unresolved},
    tls_policies,
};

/// The most entries in the status of a BackendTLSPolicy and of an InferencePool. An API server refuses a longer list.
const MAX_ANCESTORS: usize = 16;
const MAX_POOL_PARENTS: usize = 32;

/// The most bytes of a condition's message. An API server refuses a status with a longer one.
const MAX_MESSAGE_BYTES: usize = 32_768;

/// The condition of a Gateway that lets clients in whatever their certificate is.
const INSECURE_MODE: &str = "InsecureFrontendValidationMode";

/// Objects with the statuses to write.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Updates {
    pub(crate) classes: Vec<GatewayClass>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) listener_sets: Vec<ListenerSet>,
    pub(crate) routes: Vec<HTTPRoute>,
    pub(crate) pools: Vec<InferencePool>,
    pub(crate) policies: Vec<BackendTLSPolicy>,
}

/// Computes every status that differs from the current one.
pub(crate) fn updates(observed: &RoutingInputs, resolved: &Resolved, now: &Time) -> Updates {
    let reporter = Reporter { observed, resolved, now };
    let mut updates = Updates::default();
    for class in observed.classes.iter().filter(|class| class.spec.controller_name == CONTROLLER_NAME) {
        let status = Some(reporter.class(class));
        if class.status != status {
            updates.classes.push(GatewayClass { status, ..GatewayClass::clone(class) });
        }
    }
    let counts = reporter.attached();
    for (served, counts) in resolved.gateways.iter().zip(&counts) {
        let status = Some(reporter.gateway(served, counts));
        if served.gateway.status != status {
            updates.gateways.push(Gateway { status, ..Gateway::clone(&served.gateway) });
        }
        for set in &served.sets {
            let status = Some(reporter.listener_set(served, set, counts));
            if set.set.status != status {
                updates.listener_sets.push(ListenerSet { status, ..ListenerSet::clone(&set.set) });
            }
        }
    }
    for resolved in &resolved.routes {
        let (route, parents) = (&resolved.parsed.route, reporter.route(resolved));
        if route.status.as_ref().map_or(&[][..], |status| &status.parents) != parents {
            updates
                .routes
                .push(HTTPRoute { status: Some(HTTPRouteStatus { parents }), ..HTTPRoute::clone(route) });
        }
    }
    // Nobody else says that the Gateway of a set is gone. The controller of another class may have done it.
    for set in &observed.listener_sets {
        let gone = gateways::parent(set)
            .filter(|parent| !observed.gateways.iter().any(|gateway| has_key(&gateway.metadata, parent)));
        if let Some(parent) = gone
            && set.status.as_ref().is_some_and(|status| status.conditions.iter().any(is_served))
        {
            let status = Some(reporter.orphan(set, &parent));
            updates.listener_sets.push(ListenerSet { status, ..ListenerSet::clone(set) });
        }
    }
    let led_to = reporter.led_to(|route| pool_keys(observed, route));
    for pool in &observed.pools {
        let parents = reporter.pool(pool, led_to.get(&Key::of(pool.as_ref())));
        if pool.status.as_ref().map_or(&[][..], |status| &status.parents) != parents {
            updates.pools.push(InferencePool {
                status: Some(InferencePoolStatus { parents }),
                ..InferencePool::clone(pool)
            });
        }
    }
    let led_to = match &observed.tls_policies[..] {
        [] => BTreeMap::new(),
        _ => reporter.led_to(|route| service_keys(observed, route)),
    };
    let references = |served: &ServedGateway| tls_policies::references(observed, &served.gateway);
    let refused = resolved.gateways.iter().map(|served| (&served.key, references(served).refused)).collect();
    for policy in &observed.tls_policies {
        let ancestors = reporter.policy(policy, &led_to, &refused);
        if policy.status.as_ref().map_or(&[][..], |status| &status.ancestors) != ancestors {
            let status = Some(BackendTLSPolicyStatus { ancestors });
            updates.policies.push(BackendTLSPolicy { status, ..BackendTLSPolicy::clone(policy) });
        }
    }
    updates
}

/// Gateways in the order of their names.
type GatewaysByKey<'a> = BTreeMap<&'a Key, &'a ServedGateway>;

struct Reporter<'a> {
    observed: &'a RoutingInputs,
    resolved: &'a Resolved,
    now: &'a Time,
}

/// The conditions of an object or of a part of it.
struct Conditions<'a> {
    before: &'a [Condition],
    generation: Option<i64>,
    now: &'a Time,
}

// === impl Conditions ===

impl Conditions<'_> {
    fn condition(&self, kind: &str, status: bool, reason: &str, message: &str) -> Condition {
        let status = if status { "True" } else { "False" };
        let unchanged = self.before.iter().find(|old| old.type_ == kind && old.status == status);
        Condition {
            type_: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)].into(),
            observed_generation: self.generation,
            last_transition_time: unchanged
                .map_or_else(|| self.now.clone(), |old| old.last_transition_time.clone()),
        }
    }

    /// A condition that is true, for the reason of its name and with this message, unless there is a problem.
    fn state(&self, kind: &str, problem: Option<&Problem>, message: &str) -> Condition {
        match problem {
            None => self.condition(kind, true, kind, message),
            Some(Problem { reason, message }) => self.condition(kind, false, reason, message),
        }
    }

    /// Merges conditions into those before. Conditions whose types this controller does not set are kept. The others are replaced,
    /// including the API server's `Unknown` placeholders.
    fn merged(&self, ours: impl IntoIterator<Item = Condition>) -> Vec<Condition> {
        let ours: Vec<_> = ours.into_iter().collect();
        let others = self.before.iter().filter(|old| ours.iter().all(|new| new.type_ != old.type_)).cloned();
        let mut all: Vec<_> = others.collect();
        all.extend(ours);
        all
    }
}

// === impl Reporter ===

impl Reporter<'_> {
    fn conditions<'a>(&'a self, generation: Option<i64>, before: &'a [Condition]) -> Conditions<'a> {
        Conditions { before, generation, now: self.now }
    }

    fn class(&self, class: &GatewayClass) -> GatewayClassStatus {
        let old = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let all = self.conditions(class.metadata.generation, old);
        GatewayClassStatus {
            conditions: all.merged([all.state("Accepted", None, "served by Longboat")]),
            supported_features: FEATURES.map(|name| SupportedFeature { name: name.into() }).into(),
        }
    }

    /// Counts the routes of each listener of each Gateway.
    fn attached(&self) -> Vec<Vec<i32>> {
        let gateways = &self.resolved.gateways;
        let mut counts: Vec<_> = gateways.iter().map(|gateway| vec![0; gateway.listeners.len()]).collect();
        for ResolvedRoute { parsed, .. } in &self.resolved.routes {
            let (route, parents) = (&parsed.route, parsed.route.spec.parent_refs.iter());
            let listeners = parents.flat_map(|parent| counted(self.observed, gateways, route, parent));
            for (gateway, listener) in listeners.collect::<BTreeSet<_>>() {
                counts[gateway][listener] += 1;
            }
        }
        counts
    }

    fn gateway(&self, served: &ServedGateway, counts: &[i32]) -> GatewayStatus {
        let old = served.gateway.status.clone().unwrap_or_default();
        let generation = served.gateway.metadata.generation;
        let listeners = self.listeners(served, None, counts, generation, &old.listeners);
        let refused: Vec<_> =
            served.listeners_of(None).filter_map(|listener| listener.refused.as_ref()).collect();
        let entrances = served.listeners.iter().flat_map(|listener| served.client_addresses(listener));
        let places = served_on(&entrances.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
        let why = || refused.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
        let accepts = served.listeners.iter().any(|listener| listener.refused.is_none());
        let (accepted, reason, message) = match &served.refused {
            Some(problem) => (false, problem.reason, problem.message.clone()),
            None if !accepts => {
                (false, "ListenersNotValid", format!("the gateway can serve no listener: {}", why()))
            }
            None if refused.is_empty() => (true, "Accepted", places.clone()),
            None => (true, "ListenersNotValid", format!("some listeners are not served: {}", why())),
        };
        let programs = served.listeners.iter().any(Listener::is_programmed);
        let (programmed, why, text) = match &served.place.unserved {
            _ if !accepted => (false, "Invalid", message.clone()),
            Some(problem) => (false, problem.reason, problem.message.clone()),
            None if programs => (true, "Programmed", places),
            None => (false, "Invalid", "no listener of the gateway can be served".into()),
        };
        let is_insecure = client_certificates::is_any_insecure(&served.gateway);
        // What no longer applies is withdrawn.
        let stays = |old: &Condition| match old.type_.as_str() {
            "ResolvedRefs" => served.client_certificate.is_some(),
            INSECURE_MODE => is_insecure,
            _ => true,
        };
        let before: Vec<_> = old.conditions.into_iter().filter(stays).collect();
        let all = self.conditions(generation, &before);
        let resolved = served.client_certificate.as_ref().map(|shown| shown.problem.as_ref());
        let insecure = is_insecure.then(|| {
            let text = "with AllowInsecureFallback, clients may connect whatever their certificate is";
            all.condition(INSECURE_MODE, true, "ConfigurationChanged", text)
        });
        let conditions = [
            all.condition("Accepted", accepted, reason, &message),
            all.condition("Programmed", programmed, why, &text),
        ];
        let conditions =
            conditions.into_iter().chain(resolved.map(|problem| all.state("ResolvedRefs", problem, "")));
        let sets = served.sets.iter().filter(|set| accepts_set(served, set)).count();
        GatewayStatus {
            addresses: if programmed { served.place.addresses.clone() } else { Vec::new() },
            attached_listener_sets: i32::try_from(sets).ok().filter(|_| !served.sets.is_empty()),
            conditions: all.merged(conditions.chain(insecure)),
            listeners,
        }
    }

    fn listener_set(&self, served: &ServedGateway, set: &ServedSet, counts: &[i32]) -> ListenerSetStatus {
        let old = set.set.status.clone().unwrap_or_default();
        let generation = set.set.metadata.generation;
        let problem = |reason, message: &str| Some(Problem { reason, message: message.to_owned() });
        let problem = if !set.allowed {
            problem("NotAllowed", "spec.allowedListeners of the gateway does not allow this namespace")
        } else if accepts_set(served, set) {
            None
        } else {
            problem("ListenersNotValid", "the gateway can serve no listener of this set")
        };
        let all = self.conditions(generation, &old.conditions);
        let conditions = ["Accepted", "Programmed"].map(|kind| all.state(kind, problem.as_ref(), ""));
        ListenerSetStatus {
            conditions: all.merged(conditions),
            listeners: self.listeners(served, Some(&set.key), counts, generation, &old.listeners),
        }
    }

    /// Computes the status of a set whose Gateway is gone.
    fn orphan(&self, set: &ListenerSet, parent: &Key) -> ListenerSetStatus {
        let old = set.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let all = self.conditions(set.metadata.generation, old);
        let problem =
            Problem { reason: "ParentNotAccepted", message: format!("there is no Gateway {parent}") };
        let conditions = ["Accepted", "Programmed"].map(|kind| all.state(kind, Some(&problem), ""));
        ListenerSetStatus { conditions: all.merged(conditions), listeners: Vec::new() }
    }

    fn listeners(
        &self,
        served: &ServedGateway,
        set: Option<&Key>,
        counts: &[i32],
        generation: Option<i64>,
        old: &[ListenerStatus],
    ) -> Vec<ListenerStatus> {
        let all = served.listeners.iter().zip(counts);
        all.filter(|(listener, _)| listener.set.as_ref() == set)
            .map(|(listener, count)| {
                let before = old.iter().find(|status| status.name == listener.name);
                let before = before.map_or(&[][..], |status| &status.conditions);
                let conditions = self.conditions(generation, before);
                ListenerStatus {
                    name: listener.name.clone(),
                    supported_kinds: listener.kinds.clone(),
                    attached_routes: *count,
                    conditions: conditions.merged(of_listener(served, listener, &conditions)),
                }
            })
            .collect()
    }

    /// Computes this controller's entries, and keeps the entries of other controllers.
    fn route(&self, resolved: &ResolvedRoute) -> Vec<RouteParentStatus> {
        let route = &resolved.parsed.route;
        let old = route.status.as_ref().map_or(&[][..], |status| &status.parents);
        let mut parents: Vec<_> =
            old.iter().filter(|parent| parent.controller_name != CONTROLLER_NAME).cloned().collect();
        let unsupported = &resolved.parsed.unsupported;
        let unresolved = unresolved(self.observed, route)
            .pop_first()
            .map(|(reason, messages)| Problem { reason, message: messages.join("; ") });
        for (parent, attachment) in route.spec.parent_refs.iter().zip(&resolved.attachments) {
            let refused = match attachment {
                Attachment::Foreign => continue,
                Attachment::Refused(problem) => Some(problem.clone()),
                Attachment::Attached(_) if !unsupported.is_empty() => Some(Problem {
                    reason: UNSUPPORTED_VALUE,
                    message: format!("this gateway does not support {}", unsupported.join(", ")),
                }),
                Attachment::Attached(_) => None,
            };
            let before =
                old.iter().find(|old| old.controller_name == CONTROLLER_NAME && old.parent_ref == *parent);
            let before = before.map_or(&[][..], |status| &status.conditions);
            let all = self.conditions(route.metadata.generation, before);
            let conditions = [
                all.state("Accepted", refused.as_ref(), ""),
                all.state("ResolvedRefs", unresolved.as_ref(), ""),
            ];
            parents.push(RouteParentStatus {
                parent_ref: parent.clone(),
                controller_name: CONTROLLER_NAME.into(),
                conditions: all.merged(conditions),
            });
        }
        parents
    }

    /// Computes one entry for each of this controller's Gateways whose routes lead to a target of the policy. `refused` are the
    /// policies that are too many for a Gateway.
    fn policy(
        &self,
        policy: &BackendTLSPolicy,
        led_to: &BTreeMap<Key, GatewaysByKey<'_>>,
        refused: &BTreeMap<&Key, BTreeSet<Key>>,
    ) -> Vec<PolicyAncestorStatus> {
        let old = policy.status.as_ref().map_or(&[][..], |status| &status.ancestors);
        let mut ancestors: Vec<_> =
            old.iter().filter(|ancestor| ancestor.controller_name != CONTROLLER_NAME).cloned().collect();
        let gateways = tls_policies::targets(policy).filter_map(|service| led_to.get(&service)).flatten();
        let named: BTreeSet<_> = gateways.map(|(gateway, _)| *gateway).collect();
        // Reading the certificates of policies that nobody uses would only cost time.
        let problem = if named.is_empty() { None } else { tls_policies::problem(self.observed, policy) };
        let key = Key::of(policy);
        // The entries of others are not ours to remove.
        for gateway in named.into_iter().take(MAX_ANCESTORS.saturating_sub(ancestors.len())) {
            let ancestor_ref = ParentReference {
                group: Some(GATEWAY_GROUP.into()),
                kind: Some("Gateway".into()),
                name: gateway.name.as_deref().into(),
                namespace: Some(gateway.namespace.as_deref().into()),
                ..ParentReference::default()
            };
            let before = old
                .iter()
                .find(|old| old.controller_name == CONTROLLER_NAME && old.ancestor_ref == ancestor_ref);
            let before = before.map_or(&[][..], |status| &status.conditions);
            let all = self.conditions(policy.metadata.generation, before);
            let is_refused = refused.get(gateway).is_some_and(|policies| policies.contains(&key));
            let problem = if is_refused { Some(tls_policies::too_many(gateway)) } else { problem.clone() };
            let unresolved = problem.as_ref().and_then(|problem| problem.unresolved.as_ref());
            let conditions = [
                all.state("Accepted", problem.as_ref().map(|problem| &problem.refused), ""),
                all.state("ResolvedRefs", unresolved, ""),
            ];
            ancestors.push(PolicyAncestorStatus {
                conditions: all.merged(conditions),
                ancestor_ref,
                controller_name: CONTROLLER_NAME.into(),
            });
        }
        ancestors
    }

    /// Computes one entry for each of this controller's Gateways whose routes lead to the pool.
    fn pool(&self, pool: &InferencePool, gateways: Option<&GatewaysByKey<'_>>) -> Vec<PoolParentStatus> {
        let old = pool.status.as_ref().map_or(&[][..], |status| &status.parents);
        let mut parents: Vec<_> =
            old.iter().filter(|parent| parent.controller_name != CONTROLLER_NAME).cloned().collect();
        let room = MAX_POOL_PARENTS.saturating_sub(parents.len());
        for (gateway, served) in gateways.into_iter().flatten().take(room) {
            let parent_ref = PoolParentReference {
                group: Some(GATEWAY_GROUP.into()),
                kind: "Gateway".into(),
                name: gateway.name.as_deref().into(),
                namespace: gateway.namespace.as_deref().into(),
            };
            let before =
                old.iter().find(|old| old.controller_name == CONTROLLER_NAME && old.parent_ref == parent_ref);
            let before = before.map_or(&[][..], |status| &status.conditions);
            let all = self.conditions(pool.metadata.generation, before);
            let missing = picker_missing(self.observed, pool, served.place.picks)
                .map(|message| Problem { reason: "InvalidExtensionRef", message });
            let conditions =
                [all.state("Accepted", None, ""), all.state("ResolvedRefs", missing.as_ref(), "")];
            parents.push(PoolParentStatus {
                conditions: all.merged(conditions),
                parent_ref,
                controller_name: CONTROLLER_NAME.into(),
            });
        }
        parents
    }

    /// Returns the back ends of the served routes, with the Gateways of these routes.
    fn led_to(&self, back_ends: impl Fn(&HTTPRoute) -> Vec<Key>) -> BTreeMap<Key, GatewaysByKey<'_>> {
        let mut all: BTreeMap<Key, GatewaysByKey<'_>> = BTreeMap::new();
        for route in &self.resolved.routes {
            for back_end in back_ends(&route.parsed.route) {
                let gateways = route.listeners().map(|attached| &self.resolved.gateways[attached.gateway]);
                all.entry(back_end).or_default().extend(gateways.map(|gateway| (&gateway.key, gateway)));
            }
        }
        all
    }
}

fn of_listener(served: &ServedGateway, listener: &Listener, all: &Conditions<'_>) -> [Condition; 4] {
    let places = served_on(&served.client_addresses(listener));
    let invalid = |message: &str| Problem { reason: "Invalid", message: message.to_owned() };
    let unprogrammed = match (&listener.conflict, listener.refused.as_ref().or(listener.unresolved.as_ref()))
    {
        _ if listener.is_programmed() && served.refused.is_none() => None,
        (Some(conflict), _) => Some(conflict.clone()),
        (None, Some(problem)) => Some(invalid(&problem.message)),
        (None, None) => Some(invalid("the gateway is not accepted")),
    };
    let conflicted = match &listener.conflict {
        Some(conflict) => all.condition("Conflicted", true, conflict.reason, &conflict.message),
        None => all.condition("Conflicted", false, "NoConflicts", ""),
    };
    [
        all.state("Accepted", listener.refused.as_ref(), &places),
        all.state("Programmed", unprogrammed.as_ref(), &places),
        all.state("ResolvedRefs", listener.unresolved.as_ref(), ""),
        conflicted,
    ]
}

fn served_on(entrances: &[String]) -> String {
    if entrances.is_empty() { String::new() } else { format!("served on {}", entrances.join(", ")) }
}

/// Whether a Gateway serves at least one listener of a set.
fn accepts_set(served: &ServedGateway, set: &ServedSet) -> bool {
    set.allowed && served.listeners_of(Some(&set.key)).any(Listener::is_programmed)
}

/// Whether a condition says that a set is accepted or programmed.
fn is_served(condition: &Condition) -> bool {
    matches!(&*condition.type_, "Accepted" | "Programmed") && condition.status == "True"
}
