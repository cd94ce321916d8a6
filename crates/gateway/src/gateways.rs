//! What the Gateways of this controller ask for: addresses, protocols, listener sets. Pure functions.

use std::{net::IpAddr, sync::Arc};

use longboat_api::foreign::{
    gateway::{Gateway, Listener, ListenerTls},
    listenerset::ListenerSet,
    reference::{ParentReference, SecretObjectReference},
};
use longboat_key::{Key, Name, Namespace};

use crate::{CONTROLLER_NAME, RoutingInputs, grants::GATEWAY_GROUP, namespaces, problem::Problem};

/// The type of addresses that this gateway can listen on.
pub(crate) const IP_ADDRESS: &str = "IPAddress";

/// What a socket speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Https,
}

/// Returns the Gateways whose class belongs to this controller.
pub(crate) fn ours(observed: &RoutingInputs) -> impl Iterator<Item = &Arc<Gateway>> {
    observed.gateways.iter().filter(move |gateway| {
        observed.classes.iter().any(|class| {
            class.metadata.name.as_ref() == Some(&gateway.spec.gateway_class_name)
                && class.spec.controller_name == CONTROLLER_NAME
        })
    })
}

/// The protocol of a listener, or `None` if this gateway does not serve it.
pub(crate) fn protocol(listener: &Listener) -> Option<Protocol> {
    match listener.protocol.as_str() {
        "HTTP" => Some(Protocol::Http),
        "HTTPS" => Some(Protocol::Https),
        _ => None,
    }
}

/// Returns the references to the certificates that a listener shows, if it ends TLS.
pub(crate) fn certificate_refs(listener: &Listener) -> &[SecretObjectReference] {
    match &listener.tls {
        Some(tls) if protocol(listener) == Some(Protocol::Https) && terminates(tls) => &tls.certificate_refs,
        _ => &[],
    }
}

/// Whether a listener with these settings ends TLS.
pub(crate) fn terminates(tls: &ListenerTls) -> bool {
    tls.mode.as_deref().unwrap_or("Terminate") == "Terminate"
}

/// Returns the addresses that the spec of a Gateway asks for. An empty list leaves the choice to this gateway.
pub(crate) fn requested_addresses(gateway: &Gateway) -> Result<Vec<IpAddr>, Problem> {
    let mut addresses = Vec::new();
    for address in &gateway.spec.addresses {
        let kind = address.type_.as_deref().unwrap_or(IP_ADDRESS);
        if kind != IP_ADDRESS {
            let message = format!("addresses of type {kind} are not supported: use {IP_ADDRESS}");
            return Err(Problem { reason: "UnsupportedAddress", message });
        }
        if let Some(routability) = address.routability.as_deref().filter(|text| !text.is_empty()) {
            let message =
                format!("addresses with routability {routability} are not supported: remove the field");
            return Err(Problem { reason: "UnsupportedAddress", message });
        }
        if !address.value.is_empty() {
            // The API server checks the form of addresses.
            addresses.extend(address.value.parse::<IpAddr>().ok());
        }
    }
    Ok(addresses)
}

/// Returns the Gateway that is the parent of a listener set.
pub(crate) fn parent(set: &ListenerSet) -> Option<Key> {
    let ParentReference { group, kind, namespace, name, .. } = &set.spec.parent_ref;
    let namespace = namespace.as_deref().map_or(Namespace::of(&set.metadata), Namespace);
    (group.as_deref().unwrap_or(GATEWAY_GROUP) == GATEWAY_GROUP
        && kind.as_deref().unwrap_or("Gateway") == "Gateway")
        .then(|| Key::new(namespace, Name(name)))
}

/// Returns the listener sets whose parent is this Gateway: the oldest first, then by `namespace/name`.
pub(crate) fn sets_of(observed: &RoutingInputs, gateway: &Key) -> Vec<Arc<ListenerSet>> {
    let of_it = |set: &&Arc<ListenerSet>| parent(set).as_ref() == Some(gateway);
    let mut sets: Vec<_> = observed.listener_sets.iter().filter(of_it).cloned().collect();
    sets.sort_by_cached_key(|set| {
        (set.metadata.creation_timestamp.as_ref().map(|time| time.0), Key::of(set.as_ref()).to_string())
    });
    sets
}

/// Whether a Gateway allows listeners from a namespace.
pub(crate) fn allows_set(observed: &RoutingInputs, gateway: &Gateway, set: &ListenerSet) -> bool {
    let allowed = gateway.spec.allowed_listeners.as_ref().and_then(|allowed| allowed.namespaces.as_ref());
    allowed.is_some_and(|allowed| {
        let own = Namespace::of(&gateway.metadata);
        namespaces::selected(observed, allowed, "None", own, Namespace::of(&set.metadata))
    })
}
