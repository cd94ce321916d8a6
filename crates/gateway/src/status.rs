//! Computes the statuses of GatewayClasses, Gateways, HTTPRoutes and InferencePools. Pure functions: the same objects give
//! the same statuses. The result omits objects whose status is already up to date.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use longboat_api::foreign::{
    gateway::{Gateway, GatewayStatus, GatewayStatusAddress, ListenerStatus, RouteGroupKind},
    gatewayclass::{GatewayClass, GatewayClassStatus},
    httproute::{HTTPRoute, HTTPRouteStatus, RouteParentStatus},
    inferencepool::{InferencePool, InferencePoolStatus, PoolParentReference, PoolParentStatus},
};
use longboat_key::{Key, Name, Namespace};

use crate::{
    CONTROLLER_NAME, RoutingInputs,
    attach::{Attachment, attach, is_ours, unusable},
    ports::Ports,
    route::{POOL_GROUP, picker_missing, unresolved, unsupported},
};

/// Objects with the statuses to write.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Updates {
    pub(crate) classes: Vec<GatewayClass>,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) routes: Vec<HTTPRoute>,
    pub(crate) pools: Vec<InferencePool>,
}

/// Computes every status that differs from the current one.
pub(crate) fn updates(observed: &RoutingInputs, ports: &Ports, now: &Time) -> Updates {
    let reporter = Reporter { observed, ports, now };
    let mut updates = Updates::default();
    for class in observed.classes.iter().filter(|class| class.spec.controller_name == CONTROLLER_NAME) {
        let status = Some(reporter.class(class));
        if class.status != status {
            updates.classes.push(GatewayClass { status, ..GatewayClass::clone(class) });
        }
    }
    for gateway in observed.gateways.iter().filter(|gateway| is_ours(observed, gateway)) {
        let status = Some(reporter.gateway(gateway));
        if gateway.status != status {
            updates.gateways.push(Gateway { status, ..Gateway::clone(gateway) });
        }
    }
    for route in &observed.routes {
        let parents = reporter.route(route);
        if route.status.as_ref().map_or(&[][..], |status| &status.parents) != parents {
            updates
                .routes
                .push(HTTPRoute { status: Some(HTTPRouteStatus { parents }), ..HTTPRoute::clone(route) });
        }
    }
    for pool in &observed.pools {
        let parents = reporter.pool(pool);
        if pool.status.as_ref().map_or(&[][..], |status| &status.parents) != parents {
            updates.pools.push(InferencePool {
                status: Some(InferencePoolStatus { parents }),
                ..InferencePool::clone(pool)
            });
        }
    }
    updates
}

struct Reporter<'a> {
    observed: &'a RoutingInputs,
    ports: &'a Ports,
    now: &'a Time,
}

// === impl Reporter ===

impl Reporter<'_> {
    fn class(&self, class: &GatewayClass) -> GatewayClassStatus {
        let old = class.status.clone().unwrap_or_default();
        let generation = class.metadata.generation;
        let conditions = [self.condition(
            "Accepted",
            true,
            "Accepted",
            "served by this machine",
            generation,
            &old.conditions,
        )];
        GatewayClassStatus { conditions: merged(&old.conditions, conditions) }
    }

    fn gateway(&self, gateway: &Gateway) -> GatewayStatus {
        let old = gateway.status.clone().unwrap_or_default();
        let generation = gateway.metadata.generation;
        let own = Key::of(gateway);
        let listeners: Vec<_> = gateway
            .spec
            .listeners
            .iter()
            .map(|listener| {
                let before = old.listeners.iter().find(|status| status.name == listener.name);
                let before = before.map_or(&[][..], |status| &status.conditions);
                let problem = unusable(listener, self.ports);
                let (accepted, reason, message) = match &problem {
                    None => (true, "Accepted", self.served(listener.port)),
                    Some((reason, message)) => (false, *reason, message.clone()),
                };
                let (programmed, why) = if accepted { (true, "Programmed") } else { (false, "Invalid") };
                let conditions = [
                    self.condition("Accepted", accepted, reason, &message, generation, before),
                    self.condition("Programmed", programmed, why, &message, generation, before),
                    self.condition("ResolvedRefs", true, "ResolvedRefs", "", generation, before),
                    self.condition("Conflicted", false, "NoConflicts", "", generation, before),
                ];
                ListenerStatus {
                    name: listener.name.clone(),
                    supported_kinds: vec![RouteGroupKind {
                        group: Some("gateway.networking.k8s.io".into()),
                        kind: "HTTPRoute".into(),
                    }],
                    attached_routes: self.attached(&own, &listener.name),
                    conditions: merged(before, conditions),
                }
            })
            .collect();
        let problems: Vec<_> =
            gateway.spec.listeners.iter().map(|listener| unusable(listener, self.ports)).collect();
        let served = gateway.spec.listeners.iter().zip(&problems).find(|(_, problem)| problem.is_none());
        let usable = served.is_some();
        let (reason, message) = if let Some((listener, _)) = served {
            ("Accepted", self.served(listener.port))
        } else {
            let why: Vec<_> = problems.into_iter().flatten().map(|(_, message)| message).collect();
            ("ListenersNotValid", format!("the gateway can serve no listener: {}", why.join("; ")))
        };
        let programmed = if usable { "Programmed" } else { "Invalid" };
        let conditions = [
            self.condition("Accepted", usable, reason, &message, generation, &old.conditions),
            self.condition("Programmed", usable, programmed, &message, generation, &old.conditions),
        ];
        GatewayStatus {
            addresses: if usable {
                vec![GatewayStatusAddress {
                    type_: Some("IPAddress".into()),
                    value: self.ports.address.to_string(),
                }]
            } else {
                Vec::new()
            },
            conditions: merged(&old.conditions, conditions),
            listeners,
        }
    }

    fn served(&self, port: i32) -> String {
        format!("served on {}:{port}", self.ports.address)
    }

    fn attached(&self, gateway: &Key, listener: &str) -> i32 {
        let count = self.observed.routes.iter().filter(|route| {
            let namespace = Namespace::of(&route.metadata);
            route.spec.parent_refs.iter().any(|parent| {
                parent.name == *gateway.name
                    && parent.namespace.as_deref().map_or(namespace, Namespace)
                        == gateway.namespace.as_deref()
                    && matches!(
                        attach(self.observed, self.ports, route, parent),
                        Attachment::Attached(listeners) if listeners.iter().any(|(name, _)| name == listener)
                    )
            })
        });
        i32::try_from(count.count()).unwrap_or(i32::MAX)
    }

    /// Computes this controller's entries, and keeps the entries of other controllers.
    fn route(&self, route: &HTTPRoute) -> Vec<RouteParentStatus> {
        let old = route.status.as_ref().map_or(&[][..], |status| &status.parents);
        let mut parents: Vec<_> =
            old.iter().filter(|parent| parent.controller_name != CONTROLLER_NAME).cloned().collect();
        let generation = route.metadata.generation;
        let unsupported = unsupported(route);
        let unresolved = unresolved(self.observed, route);
        for parent in &route.spec.parent_refs {
            let (accepted, reason, message) = match attach(self.observed, self.ports, route, parent) {
                Attachment::Foreign => continue,
                Attachment::Refused(reason, message) => (false, reason, message),
                Attachment::Attached(_) if !unsupported.is_empty() => (
                    false,
                    "UnsupportedValue",
                    format!("this gateway does not support {}", unsupported.join(", ")),
                ),
                Attachment::Attached(_) => (true, "Accepted", String::new()),
            };
            let before =
                old.iter().find(|old| old.controller_name == CONTROLLER_NAME && old.parent_ref == *parent);
            let before = before.map_or(&[][..], |status| &status.conditions);
            let resolved = match unresolved.first_key_value() {
                None => self.condition("ResolvedRefs", true, "ResolvedRefs", "", generation, before),
                Some((reason, messages)) => {
                    self.condition("ResolvedRefs", false, reason, &messages.join("; "), generation, before)
                }
            };
            let conditions =
                [self.condition("Accepted", accepted, reason, &message, generation, before), resolved];
            parents.push(RouteParentStatus {
                parent_ref: parent.clone(),
                controller_name: CONTROLLER_NAME.into(),
                conditions: merged(before, conditions),
            });
        }
        parents
    }

    /// Computes one entry for each of this controller's Gateways whose routes lead to the pool.
    fn pool(&self, pool: &InferencePool) -> Vec<PoolParentStatus> {
        let old = pool.status.as_ref().map_or(&[][..], |status| &status.parents);
        let mut parents: Vec<_> =
            old.iter().filter(|parent| parent.controller_name != CONTROLLER_NAME).cloned().collect();
        let generation = pool.metadata.generation;
        for gateway in self.gateways_of(pool) {
            let parent_ref = PoolParentReference {
                group: Some("gateway.networking.k8s.io".into()),
                kind: "Gateway".into(),
                name: gateway.name.as_deref().into(),
                namespace: gateway.namespace.as_deref().into(),
            };
            let before =
                old.iter().find(|old| old.controller_name == CONTROLLER_NAME && old.parent_ref == parent_ref);
            let before = before.map_or(&[][..], |status| &status.conditions);
            let resolved = match picker_missing(self.observed, pool) {
                None => self.condition("ResolvedRefs", true, "ResolvedRefs", "", generation, before),
                Some(message) => {
                    self.condition("ResolvedRefs", false, "InvalidExtensionRef", &message, generation, before)
                }
            };
            let conditions = [self.condition("Accepted", true, "Accepted", "", generation, before), resolved];
            parents.push(PoolParentStatus {
                conditions: merged(before, conditions),
                parent_ref,
                controller_name: CONTROLLER_NAME.into(),
            });
        }
        parents
    }

    fn gateways_of(&self, pool: &InferencePool) -> BTreeSet<Key> {
        let leads_here = |route: &HTTPRoute| {
            route.metadata.namespace == pool.metadata.namespace
                && route.spec.rules.iter().flat_map(|rule| &rule.backend_refs).any(|reference| {
                    reference.backend.group.as_deref() == Some(POOL_GROUP)
                        && Some(&reference.backend.name) == pool.metadata.name.as_ref()
                })
        };
        let routes =
            self.observed.routes.iter().filter(|route| leads_here(route) && unsupported(route).is_empty());
        routes
            .flat_map(|route| route.spec.parent_refs.iter().map(move |parent| (route, parent)))
            .filter(|(route, parent)| {
                matches!(attach(self.observed, self.ports, route, parent), Attachment::Attached(_))
            })
            .map(|(route, parent)| {
                let own = Namespace::of(&route.metadata);
                Key::new(parent.namespace.as_deref().map_or(own, Namespace), Name(&parent.name))
            })
            .collect()
    }

    fn condition(
        &self,
        kind: &str,
        status: bool,
        reason: &str,
        message: &str,
        generation: Option<i64>,
        before: &[Condition],
    ) -> Condition {
        let status = if status { "True" } else { "False" };
        let unchanged = before.iter().find(|old| old.type_ == kind && old.status == status);
        Condition {
            type_: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            observed_generation: generation,
            last_transition_time: unchanged
                .map_or_else(|| self.now.clone(), |old| old.last_transition_time.clone()),
        }
    }
}

/// Merges conditions. Conditions whose types this controller does not set are kept. The others are replaced, including the
/// API server's `Unknown` placeholders.
fn merged(before: &[Condition], ours: impl IntoIterator<Item = Condition>) -> Vec<Condition> {
    let ours: Vec<_> = ours.into_iter().collect();
    let others = before.iter().filter(|old| ours.iter().all(|new| new.type_ != old.type_)).cloned();
    let mut all: Vec<_> = others.collect();
    all.extend(ours);
    all
}
