//! The Gateways of a service's routes: which they are, whether they work, and where they listen.

use std::collections::BTreeMap;

use longboat_api::{
    foreign::{
        gateway::{Gateway, Listener},
        httproute::HTTPRoute,
        reference::ParentReference,
    },
    v1alpha2::GatewayReference,
};
use longboat_key::{Key, Name, Namespace};

use crate::context::Context;

/// The Gateways that routes attach to, by namespace and name. Missing ones are left out.
pub(crate) fn of_routes<'a>(context: &Context<'a>, routes: &[&HTTPRoute]) -> BTreeMap<Key, &'a Gateway> {
    let parents = routes.iter().flat_map(|route| &route.spec.parent_refs);
    let found = parents.filter(|parent| parent.is_gateway()).filter_map(|parent| {
        let (namespace, name) = of_parent(context, parent);
        Some((Key::new(namespace, name), context.snapshot.gateways.get(namespace, name)?))
    });
    found.collect()
}

/// The namespace and the name of a route's parent. The default is the namespace of the route, in which all routes of a service are.
pub(crate) fn of_parent<'a>(
    context: &Context<'a>,
    parent: &'a ParentReference,
) -> (Namespace<&'a str>, Name<&'a str>) {
    (parent.namespace.as_deref().map_or(context.namespace, Namespace), Name(&parent.name))
}

/// The namespace and the name of a Gateway that the service names. The default is the namespace of the service.
pub(super) fn of_reference<'a>(
    context: &Context<'a>,
    reference: &'a GatewayReference,
) -> (Namespace<&'a str>, Name<&'a str>) {
    let namespace = Some(reference.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    (namespace.map_or(context.namespace, Namespace), Name(&reference.name))
}

/// Whether the data plane has applied the Gateway.
pub(crate) fn is_programmed(gateway: &Gateway) -> bool {
    let mut conditions = gateway.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == "Programmed" && condition.status == "True")
}

/// The URL scheme of a listener. Returns `None` for listeners that do not carry HTTP.
pub(crate) fn scheme(listener: &Listener) -> Option<&'static str> {
    match listener.protocol.as_str() {
        "HTTP" => Some("http"),
        "HTTPS" | "TLS" => Some("https"),
        _ => None,
    }
}

/// Whether the data plane reports that it does not serve a listener.
fn is_unserved(gateway: &Gateway, listener: &Listener) -> bool {
    let statuses = gateway.status.iter().flat_map(|status| &status.listeners);
    let mut conditions =
        statuses.filter(|status| status.name == listener.name).flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == "Programmed" && condition.status == "False")
}

/// Returns the listeners that a route uses: the one that it names, or all that carry HTTP, ordered by the preferred scheme,
/// then https. Without those that are not served, unless none is.
pub(super) fn listeners<'a>(
    gateway: &'a Gateway,
    section: Option<&str>,
    preferred_scheme: &str,
) -> Result<Vec<(&'a Listener, &'static str)>, String> {
    let name = || Key::of_metadata(&gateway.metadata);
    let all = &gateway.spec.listeners;
    if let Some(section) = section {
        return match all.iter().find(|listener| listener.name == section) {
            Some(listener) => Ok(vec![(listener, scheme(listener).unwrap_or("http"))]),
            None => Err(format!("listener \"{section}\" not found in gateway {}", name())),
        };
    }
    let mut found: Vec<_> = all.iter().filter_map(|listener| Some((listener, scheme(listener)?))).collect();
    if found.is_empty() {
        return Err(format!("no HTTP-capable listener found in gateway {}", name()));
    }
    if found.iter().any(|(listener, _)| !is_unserved(gateway, listener)) {
        found.retain(|(listener, _)| !is_unserved(gateway, listener));
    }
    // The sort is stable: listeners of one scheme keep the order of the Gateway.
    found.sort_by_key(|(_, scheme)| (*scheme != preferred_scheme, *scheme != "https"));
    Ok(found)
}
