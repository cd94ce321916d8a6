//! Decides which routes attach to which listeners (Gateway API: "attaching Routes to Gateways").

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{self, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_accept::host_matches;
use longboat_api::{
    foreign::{
        gateway::Gateway,
        gatewayclass::{GatewayClass, GatewayClassSpec},
        httproute::HTTPRoute,
        reference::ParentReference,
    },
    labels::NAMESPACE_NAME,
};
use longboat_key::{Key, Name, Namespace};

use crate::{
    CONTROLLER_NAME, RoutingInputs, certificates,
    grants::GATEWAY_GROUP,
    listeners::{self, Listener, ServedGateway},
    namespaces,
    ports::Ports,
    problem::{Problem, UNSUPPORTED_VALUE},
    route::ParsedRoute,
};

/// Returns why a route would not attach to a Gateway, whoever serves the Gateway. `namespace` is that of the route; without it,
/// only its name is known, and its labels may be whatever a listener selects.
pub fn attachment_problem(
    gateway: &Gateway,
    namespace: Option<&v1::Namespace>,
    route: &HTTPRoute,
    parent: &ParentReference,
) -> Option<Problem> {
    let mut gateway = gateway.clone();
    // Other implementations may have protocols of their own, whose names have a domain.
    if gateway.spec.listeners.iter().any(|listener| listener.protocol.contains('/')) {
        return None;
    }
    // Which certificates clients need decides nothing here, and the objects that say so may be elsewhere.
    gateway.spec.tls = None;
    if namespace.is_none() {
        let allowed =
            gateway.spec.listeners.iter_mut().filter_map(|listener| listener.allowed_routes.as_mut());
        let selectors = allowed.filter_map(|allowed| allowed.namespaces.as_mut()?.selector.as_mut());
        selectors.for_each(namespaces::keep_name);
    }
    let mut namespace = namespace.cloned().unwrap_or_default();
    let name = route.metadata.namespace.clone().unwrap_or_default();
    // The API server gives each namespace this label.
    namespace.metadata.labels.get_or_insert_default().insert(NAMESPACE_NAME.to_owned(), name.clone());
    namespace.metadata.name = Some(name);
    let observed = RoutingInputs { namespaces: vec![Arc::new(namespace)], ..inputs_of(gateway) };
    match attach(&observed, &listeners::served(&observed, &Ports::default()), route, parent) {
        Attachment::Refused(problem) => Some(problem),
        Attachment::Foreign | Attachment::Attached(_) => None,
    }
}

/// Returns the listeners of a Gateway that have no usable certificate, whoever serves the Gateway, and why: those with protocol HTTPS
/// whose certificates are among these Secrets. Whether a reference to another namespace is permitted is not judged.
pub fn certificate_problems(gateway: &Gateway, secrets: &[Arc<Secret>]) -> Vec<(usize, Problem)> {
    let observed = RoutingInputs { secrets: secrets.to_vec(), ..inputs_of(gateway.clone()) };
    let served = listeners::served(&observed, &Ports::default());
    let listeners = served.into_iter().flat_map(|gateway| gateway.listeners).enumerate();
    let problems = listeners.filter_map(|(at, listener)| Some((at, listener.unresolved?)));
    problems.filter(|(_, problem)| problem.reason == certificates::INVALID).collect()
}

/// Returns the listeners of a Gateway that this controller does not accept, wherever it runs, and why.
pub fn listener_problems(gateway: &Gateway) -> Vec<(usize, Problem)> {
    let mut gateway = gateway.clone();
    // The objects that say which certificates clients need may be elsewhere.
    gateway.spec.tls = None;
    let served = listeners::served(&inputs_of(gateway), &Ports::default());
    let listeners = served.into_iter().flat_map(|gateway| gateway.listeners).enumerate();
    listeners.filter_map(|(at, listener)| Some((at, listener.refused?))).collect()
}

/// Returns the fields for which this controller refuses a route. Each message begins with the path of the field.
pub fn route_problems(route: HTTPRoute) -> Vec<Problem> {
    let key = Key::of(&route);
    let fields = ParsedRoute::new(&Arc::new(route), key).unsupported.into_iter();
    fields.map(|message| Problem { reason: UNSUPPORTED_VALUE, message }).collect()
}

/// Returns the routes that attach to a Gateway, whoever serves the Gateway.
pub(crate) fn routes_of<'a>(observed: &'a RoutingInputs, gateway: &Gateway) -> Vec<&'a HTTPRoute> {
    let mut gateway = gateway.clone();
    // Decides nothing here, as above.
    gateway.spec.tls = None;
    let inputs = RoutingInputs {
        listener_sets: observed.listener_sets.clone(),
        namespaces: observed.namespaces.clone(),
        ..inputs_of(gateway)
    };
    let served = listeners::served(&inputs, &Ports::default());
    let attaches = |route: &&HTTPRoute| {
        let mut parents = route.spec.parent_refs.iter();
        parents.any(|parent| !attach(&inputs, &served, route, parent).listeners().is_empty())
    };
    observed.routes.iter().map(AsRef::as_ref).filter(attaches).collect()
}

/// The objects of a cluster on which this controller serves a Gateway.
fn inputs_of(gateway: Gateway) -> RoutingInputs {
    let metadata =
        ObjectMeta { name: Some(gateway.spec.gateway_class_name.clone()), ..ObjectMeta::default() };
    let spec = GatewayClassSpec { controller_name: CONTROLLER_NAME.to_owned() };
    let class = GatewayClass { metadata, spec, status: None };
    RoutingInputs {
        classes: vec![Arc::new(class)],
        gateways: vec![Arc::new(gateway)],
        ..RoutingInputs::default()
    }
}

/// The result for one `parentRefs` entry of a route.
#[derive(Debug, PartialEq)]
pub(crate) enum Attachment {
    /// The parent does not belong to this controller, and another controller reports on it.
    Foreign,
    /// These listeners of a Gateway serve the route.
    Attached(Vec<AttachedListener>),
    /// The route is not served.
    Refused(Problem),
}

// === impl Attachment ===

impl Attachment {
    /// The listeners that serve the route.
    pub(crate) fn listeners(&self) -> &[AttachedListener] {
        match self {
            Self::Attached(listeners) => listeners,
            Self::Foreign | Self::Refused(_) => &[],
        }
    }
}

/// A listener that serves a route.
#[derive(Debug, PartialEq)]
pub(crate) struct AttachedListener {
    /// Index of the Gateway.
    pub(crate) gateway: usize,
    /// Index of the listener in the Gateway.
    pub(crate) listener: usize,
    /// The host names of the route that have some host in common with the listener. An empty list means any host.
    pub(crate) hosts: Vec<String>,
}

/// Decides for one `parentRefs` entry.
pub(crate) fn attach(
    observed: &RoutingInputs,
    gateways: &[ServedGateway],
    route: &HTTPRoute,
    parent: &ParentReference,
) -> Attachment {
    let own = Key::of(route);
    let Some(ReferencedListeners { gateway: at, kind, name, listeners }) =
        referenced_listeners(gateways, &own, parent)
    else {
        return Attachment::Foreign;
    };
    let refused = |reason, message| Attachment::Refused(Problem { reason, message });
    if listeners.is_empty() {
        let message = format!("{kind} {name} has no listener with the sectionName or port of this parentRef");
        return refused("NoMatchingParent", message);
    }
    let usable: Vec<_> = listeners.into_iter().filter(|(_, listener)| listener.refused.is_none()).collect();
    if usable.is_empty() {
        let message = format!("the gateway serves no listener of {kind} {name} that matches this parentRef");
        return refused("NoMatchingParent", message);
    }
    // A route of another namespace attaches to the listeners of a ListenerSet as those of the set say.
    let allowed: Vec<_> = usable
        .into_iter()
        .filter(|(_, listener)| allows(observed, name.namespace.as_deref(), listener, &own))
        .collect();
    if allowed.is_empty() {
        let message = format!("{kind} {name} allows no HTTPRoute from namespace {}", own.namespace);
        return refused("NotAllowedByListeners", message);
    }
    let attached: Vec<_> = allowed
        .into_iter()
        .filter_map(|(index, listener)| {
            let hosts = hosts(listener.host.as_deref(), &route.spec.hostnames)?;
            Some(AttachedListener { gateway: at, listener: index, hosts })
        })
        .collect();
    if attached.is_empty() {
        let message = format!("no hostname of this route matches a listener of {kind} {name}");
        return refused("NoMatchingListenerHostname", message);
    }
    Attachment::Attached(attached)
}

/// Returns the listeners to whose `attachedRoutes` a route counts, with their Gateway. The Gateway API counts without a look at the status
/// of listeners and routes.
pub(crate) fn counted(
    observed: &RoutingInputs,
    gateways: &[ServedGateway],
    route: &HTTPRoute,
    parent: &ParentReference,
) -> Vec<(usize, usize)> {
    let own = Key::of(route);
    let Some(ReferencedListeners { gateway, name, listeners, .. }) =
        referenced_listeners(gateways, &own, parent)
    else {
        return Vec::new();
    };
    let counts = listeners.into_iter().filter(|(_, listener)| {
        allows(observed, name.namespace.as_deref(), listener, &own)
            && hosts(listener.host.as_deref(), &route.spec.hostnames).is_some()
    });
    counts.map(|(listener, _)| (gateway, listener)).collect()
}

/// The listeners of a parent that a `parentRefs` entry names.
struct ReferencedListeners<'a> {
    gateway: usize,
    kind: &'a str,
    name: Key,
    listeners: Vec<(usize, &'a Listener)>,
}

/// Returns the listeners that a `parentRefs` entry names, or `None` if the parent does not belong to this controller.
fn referenced_listeners<'a>(
    gateways: &'a [ServedGateway],
    route: &Key,
    parent: &'a ParentReference,
) -> Option<ReferencedListeners<'a>> {
    if parent.group.as_deref().unwrap_or(GATEWAY_GROUP) != GATEWAY_GROUP {
        return None;
    }
    let within = parent.namespace.as_deref().map_or(route.namespace.as_deref(), Namespace);
    let name = Key::new(within, Name(&parent.name));
    let kind = parent.kind.as_deref().unwrap_or("Gateway");
    let (gateway, set) = match kind {
        "Gateway" => (gateways.iter().position(|gateway| gateway.key == name)?, None),
        "ListenerSet" => {
            let has = |gateway: &ServedGateway| gateway.sets.iter().any(|set| set.key == name);
            (gateways.iter().position(has)?, Some(&name))
        }
        _ => return None,
    };
    let listeners = gateways[gateway].listeners.iter().enumerate();
    let listeners = listeners
        .filter(|(_, listener)| listener.set.as_ref() == set)
        .filter(|(_, listener)| parent.section_name.as_ref().is_none_or(|section| *section == listener.name))
        .filter(|(_, listener)| parent.port.is_none_or(|port| port == listener.port))
        .collect();
    Some(ReferencedListeners { gateway, kind, name, listeners })
}

fn allows(observed: &RoutingInputs, own: Namespace<&str>, listener: &Listener, route: &Key) -> bool {
    let namespaces = listener.allowed.as_ref().and_then(|allowed| allowed.namespaces.clone());
    !listener.kinds.is_empty()
        && namespaces::selected(
            observed,
            &namespaces.unwrap_or_default(),
            "Same",
            own,
            route.namespace.as_deref(),
        )
}

/// Returns the host names of a route that have some host in common with the listener. Returns `None` if there are none, and an empty
/// list if the route accepts any. The names stay as they are, although the listener may be narrower: the more specific name of two
/// routes wins, whatever the listener is.
fn hosts(listener: Option<&str>, route: &[String]) -> Option<Vec<String>> {
    // Either name may be the wildcard.
    let meets = |host: &String| {
        listener.is_none_or(|listener| host_matches(listener, host) || host_matches(host, listener))
    };
    let common: Vec<_> = route.iter().map(|host| host.to_ascii_lowercase()).filter(meets).collect();
    (route.is_empty() || !common.is_empty()).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_meet_where_both_sides_allow_them() {
        let list = |hosts: &[&str]| hosts.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(hosts(None, &[]), Some(vec![]));
        assert_eq!(hosts(Some("a.example"), &[]), Some(vec![]));
        assert_eq!(hosts(Some("*.example"), &list(&["a.example", "b.test"])), Some(list(&["a.example"])));
        assert_eq!(hosts(Some("a.example"), &list(&["*.example"])), Some(list(&["*.example"])));
        assert_eq!(hosts(Some("a.example"), &list(&["b.example"])), None);
        assert!(!host_matches("*.example", "example"));
    }
}
