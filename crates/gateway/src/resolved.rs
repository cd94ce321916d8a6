//! What the objects mean together: Gateways with their listeners, and the routes that are attached to them. Routing table and
//! statuses are computed from this.

use std::{collections::BTreeSet, sync::Arc};

use longboat_key::{Key, Namespace};

use crate::{
    RoutingInputs,
    attach::{AttachedListener, Attachment, attach},
    keys::KeyedServices,
    listeners::{self, ServedGateway},
    ports::Ports,
    route::{self, ParsedRoute, RouteParser},
};

/// The Gateways of this controller, and all routes.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) gateways: Vec<ServedGateway>,
    /// In the order of their precedence.
    pub(crate) routes: Vec<ResolvedRoute>,
}

/// A route, and the result for each of its `parentRefs`.
#[derive(Debug)]
pub(crate) struct ResolvedRoute {
    pub(crate) parsed: Arc<ParsedRoute>,
    pub(crate) attachments: Vec<Attachment>,
}

// === impl Resolved ===

impl Resolved {
    pub(crate) fn new(observed: &RoutingInputs, ports: &Ports, parser: &mut RouteParser) -> Self {
        let gateways = listeners::served(observed, ports);
        let resolve = |parsed: Arc<ParsedRoute>| {
            let parents = &parsed.route.spec.parent_refs;
            let attachments =
                parents.iter().map(|parent| attach(observed, &gateways, &parsed.route, parent)).collect();
            ResolvedRoute { parsed, attachments }
        };
        let routes = parser.parse(observed).into_iter().map(resolve).collect();
        Self { gateways, routes }
    }

    /// The pools to which requests may go.
    pub(crate) fn pools(&self, observed: &RoutingInputs) -> BTreeSet<Key> {
        let served = self.routes.iter().filter(|route| route.listeners().next().is_some());
        served.flat_map(|route| route::pool_keys(observed, &route.parsed.route)).collect()
    }

    /// Returns the namespaces whose API keys a Gateway accepts. A namespace whose objects a route must not use is not among them.
    pub(crate) fn key_namespaces(
        &self,
        observed: &RoutingInputs,
        services: &KeyedServices,
        gateway: usize,
    ) -> BTreeSet<Namespace> {
        let metadata = &self.gateways[gateway].gateway.metadata;
        let routes =
            self.routes.iter().filter(|route| route.listeners().any(|attached| attached.gateway == gateway));
        let mut all = BTreeSet::new();
        for route in routes {
            let keyed = services.of_route(&route.parsed.route, [metadata].into_iter());
            let namespace = route.parsed.key.namespace.as_deref();
            let references = route.parsed.route.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
            for reference in references.map(|reference| &reference.backend) {
                if let Some(scope) = keyed.scope(observed, namespace, reference)
                    && route::problem(observed, namespace, reference).is_none()
                {
                    all.extend(scope.namespaces().iter().cloned());
                }
            }
        }
        all
    }
}

// === impl ResolvedRoute ===

impl ResolvedRoute {
    /// The listeners that serve the route.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &AttachedListener> {
        fn attached(attachment: &Attachment) -> &[AttachedListener] {
            match attachment {
                Attachment::Attached(listeners) => listeners,
                _ => &[],
            }
        }
        // A route with a field that is not served is attached for its status only.
        let supported = self.parsed.unsupported.is_empty();
        self.attachments.iter().filter(move |_| supported).flat_map(attached)
    }
}
