//! Decides which routes attach to which listeners (Gateway API: "attaching Routes to Gateways").

use std::collections::BTreeMap;

use longboat_accept::host_matches;
use longboat_api::foreign::{
    gateway::{Gateway, Listener},
    httproute::HTTPRoute,
    reference::ParentReference,
};
use longboat_key::{Key, Name, Namespace};

use crate::{
    CONTROLLER_NAME, RoutingInputs,
    observed::{is_of, selects},
    ports::Ports,
};

/// The only protocol of listeners that this gateway supports.
pub(crate) const PROTOCOL: &str = "HTTP";

/// The result for one `parentRefs` entry of a route.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attachment {
    /// The parent is not a Gateway of this controller, and another controller reports on it.
    Foreign,
    /// These listeners serve the route. Each has the host names that both sides allow; an empty list means any host.
    Attached(Vec<(String, Vec<String>)>),
    /// The route is not served, with a reason of the Gateway API and a message.
    Refused(&'static str, String),
}

/// Whether the Gateway's class belongs to this controller.
pub(crate) fn is_ours(observed: &RoutingInputs, gateway: &Gateway) -> bool {
    observed.classes.iter().any(|class| {
        class.metadata.name.as_ref() == Some(&gateway.spec.gateway_class_name)
            && class.spec.controller_name == CONTROLLER_NAME
    })
}

/// Returns why a listener cannot be served, with the reason of the Gateway API.
pub(crate) fn unusable(listener: &Listener, ports: &Ports) -> Option<(&'static str, String)> {
    if listener.protocol != PROTOCOL {
        let message = format!("this gateway does not serve protocol {}: use {PROTOCOL}", listener.protocol);
        return Some(("UnsupportedProtocol", message));
    }
    ports.problem(listener.port).map(|message| ("PortUnavailable", message))
}

/// Decides for one `parentRefs` entry.
pub(crate) fn attach(
    observed: &RoutingInputs,
    ports: &Ports,
    route: &HTTPRoute,
    parent: &ParentReference,
) -> Attachment {
    let group = parent.group.as_deref().unwrap_or("gateway.networking.k8s.io");
    if group != "gateway.networking.k8s.io" || parent.kind.as_deref().unwrap_or("Gateway") != "Gateway" {
        return Attachment::Foreign;
    }
    let own = Key::of(route);
    let within = parent.namespace.as_deref().map_or(own.namespace.as_deref(), Namespace);
    let name = Key::new(within, Name(&parent.name));
    let Some(gateway) = observed.gateways.iter().find(|gateway| is_of(&gateway.metadata, &name)) else {
        return Attachment::Foreign;
    };
    if !is_ours(observed, gateway) {
        return Attachment::Foreign;
    }
    let wanted: Vec<_> = gateway
        .spec
        .listeners
        .iter()
        .filter(|listener| parent.section_name.as_ref().is_none_or(|section| *section == listener.name))
        .filter(|listener| parent.port.is_none_or(|port| port == listener.port))
        .collect();
    if wanted.is_empty() {
        return Attachment::Refused(
            "NoMatchingParent",
            format!("gateway {name} has no listener with the sectionName or port of this parentRef"),
        );
    }
    let usable: Vec<_> = wanted.into_iter().filter(|listener| unusable(listener, ports).is_none()).collect();
    if usable.is_empty() {
        return Attachment::Refused(
            "NoMatchingParent",
            format!("the gateway serves no listener of {name} that matches this parentRef"),
        );
    }
    let allowed: Vec<_> =
        usable.into_iter().filter(|listener| allows(observed, &name, listener, &own)).collect();
    if allowed.is_empty() {
        let message = format!("gateway {name} allows no HTTPRoute from namespace {}", own.namespace);
        return Attachment::Refused("NotAllowedByListeners", message);
    }
    let attached: Vec<_> = allowed
        .into_iter()
        .filter_map(|listener| {
            Some((listener.name.clone(), hosts(listener.hostname.as_deref(), &route.spec.hostnames)?))
        })
        .collect();
    if attached.is_empty() {
        let message = format!("no hostname of this route matches a listener of gateway {name}");
        return Attachment::Refused("NoMatchingListenerHostname", message);
    }
    Attachment::Attached(attached)
}

fn allows(observed: &RoutingInputs, gateway: &Key, listener: &Listener, route: &Key) -> bool {
    let Some(allowed) = &listener.allowed_routes else {
        return route.namespace == gateway.namespace;
    };
    let kind_allowed = allowed.kinds.is_empty()
        || allowed.kinds.iter().any(|kind| {
            kind.kind == "HTTPRoute"
                && kind.group.as_deref().unwrap_or("gateway.networking.k8s.io") == "gateway.networking.k8s.io"
        });
    let namespaces = allowed.namespaces.clone().unwrap_or_default();
    kind_allowed
        && match namespaces.from.as_deref().unwrap_or("Same") {
            "All" => true,
            "Selector" => observed
                .namespaces
                .iter()
                .find(|namespace| *Name::of(&namespace.metadata) == *route.namespace)
                .is_some_and(|namespace| {
                    let selector = namespaces.selector.unwrap_or_default();
                    let labels = namespace.metadata.labels.as_ref();
                    let exact = selector.match_labels.unwrap_or_default();
                    (exact.is_empty() || selects(&exact, labels))
                        && selector.match_expressions.iter().flatten().all(|expression| {
                            let value =
                                labels.and_then(|labels: &BTreeMap<_, _>| labels.get(&expression.key));
                            let listed = || {
                                value.is_some_and(|value| {
                                    expression.values.iter().flatten().any(|v| v == value)
                                })
                            };
                            match expression.operator.as_str() {
                                "In" => listed(),
                                "NotIn" => !listed(),
                                "Exists" => value.is_some(),
                                "DoesNotExist" => value.is_none(),
                                _ => false,
                            }
                        })
                }),
            _ => route.namespace == gateway.namespace,
        }
}

/// Returns the host names that listener and route have in common. Returns `None` if there are none, and an empty list if
/// both accept any.
fn hosts(listener: Option<&str>, route: &[String]) -> Option<Vec<String>> {
    let listener = listener.filter(|host| !host.is_empty());
    match (listener, route) {
        (None, hosts) => Some(hosts.to_vec()),
        (Some(listener), []) => Some(vec![listener.to_owned()]),
        (Some(listener), hosts) => {
            let common: Vec<_> = hosts
                .iter()
                .filter_map(|host| {
                    if host_matches(listener, host) {
                        Some(host.clone())
                    } else {
                        host_matches(host, listener).then(|| listener.to_owned())
                    }
                })
                .collect();
            (!common.is_empty()).then_some(common)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_meet_where_both_sides_allow_them() {
        let list = |hosts: &[&str]| hosts.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(hosts(None, &[]), Some(vec![]));
        assert_eq!(hosts(Some("a.example"), &[]), Some(list(&["a.example"])));
        assert_eq!(hosts(Some("*.example"), &list(&["a.example", "b.test"])), Some(list(&["a.example"])));
        assert_eq!(hosts(Some("a.example"), &list(&["*.example"])), Some(list(&["a.example"])));
        assert_eq!(hosts(Some("a.example"), &list(&["b.example"])), None);
        assert!(!host_matches("*.example", "example"));
    }
}
