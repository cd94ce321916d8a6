//! What the objects mean together: Gateways with their listeners, and the routes that are attached to them. Routing table and
//! statuses are computed from this.

use std::{collections::BTreeSet, sync::Arc};

use longboat_api::foreign::httproute::HTTPRoute;
use longboat_key::{Key, Namespace};
use tokio::task::JoinError;

use crate::{
    RoutingInputs,
    attach::{AttachedListener, Attachment, attach},
    keys::KeyedServices,
    listeners::{self, ServedGateway},
    ports::Ports,
    problem::{Problem, UNSUPPORTED_VALUE},
    route::{self, ParsedRoute, RouteParser},
};

/// The Gateways of this controller, and all routes.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) gateways: Vec<ServedGateway>,
    /// In the order of their precedence: the oldest first, then by `namespace/name`.
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
    /// Computes it on a thread that may be busy: routes that are new to the parser may take long to compile.
    pub(crate) async fn compute(observed: &RoutingInputs, ports: &Ports, parser: &mut RouteParser) -> Self {
        let (observed, ports, mut own) = (observed.clone(), ports.clone(), std::mem::take(parser));
        let computed =
            tokio::task::spawn_blocking(move || (Self::new(&observed, &ports, &mut own), own)).await;
        match computed.map_err(JoinError::try_into_panic) {
            Ok((resolved, own)) => {
                *parser = own;
                resolved
            }
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The process ends.
            Err(Err(_)) => std::future::pending().await,
        }
    }

    pub(crate) fn new(observed: &RoutingInputs, ports: &Ports, parser: &mut RouteParser) -> Self {
        let gateways = listeners::served(observed, ports);
        let mut routes: Vec<_> =
            observed.routes.iter().map(|route| (Key::of(route.as_ref()), route)).collect();
        routes.sort_by_cached_key(|(key, route)| {
            (route.metadata.creation_timestamp.as_ref().map(|time| time.0), key.to_string())
        });
        // The bytes of regular expressions of each Gateway. Older routes come first, so that nobody takes the room of others.
        let mut used = vec![0; gateways.len()];
        let mut known = Vec::new();
        let resolve = |(key, route): (Key, &Arc<HTTPRoute>)| {
            let parents = route.spec.parent_refs.iter();
            let mut attachments: Vec<_> =
                parents.map(|parent| attach(observed, &gateways, route, parent)).collect();
            let attached = attached_to(&attachments);
            if attached.is_empty() {
                return ResolvedRoute { parsed: Arc::new(ParsedRoute::unattached(route, key)), attachments };
            }
            let mut parsed = parser.parse(route, &key);
            for gateway in attached {
                let sum = used[gateway] + parsed.regex_bytes;
                if sum <= parser.max_regex_bytes {
                    used[gateway] = sum;
                } else {
                    let problem = no_room(&gateways[gateway].key, parsed.regex_bytes, parser.max_regex_bytes);
                    refuse(&mut attachments, gateway, &problem);
                }
            }
            let is_served = parser.serves && !attached_to(&attachments).is_empty();
            if is_served && parsed.lacks_rules() {
                parsed = Arc::new(ParsedRoute::new(route, key));
            } else if !is_served && parsed.regex_bytes > 0 {
                parsed = Arc::new(parsed.without_rules());
            }
            known.push(parsed.clone());
            ResolvedRoute { parsed, attachments }
        };
        let routes = routes.into_iter().map(resolve).collect();
        parser.remember(known);
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

/// Returns the Gateways whose listeners serve a route.
fn attached_to(attachments: &[Attachment]) -> BTreeSet<usize> {
    attachments.iter().flat_map(Attachment::listeners).map(|attached| attached.gateway).collect()
}

/// Takes a route from the listeners of a Gateway.
fn refuse(attachments: &mut [Attachment], gateway: usize, problem: &Problem) {
    let of_it = |attachment: &&mut Attachment| {
        attachment.listeners().iter().any(|attached| attached.gateway == gateway)
    };
    attachments.iter_mut().filter(of_it).for_each(|one| *one = Attachment::Refused(problem.clone()));
}

/// Says why the regular expressions of a route cannot be served.
fn no_room(gateway: &Key, bytes: usize, max: usize) -> Problem {
    let message = format!(
        "the regular expressions of this route need {bytes} bytes, and those of older routes of Gateway {gateway} leave less of {max}: \
         match exactly, or use another Gateway"
    );
    Problem { reason: UNSUPPORTED_VALUE, message }
}

// === impl ResolvedRoute ===

impl ResolvedRoute {
    /// The listeners that serve the route.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = &AttachedListener> {
        // A route with a field that is not served is attached for its status only.
        let supported = self.parsed.unsupported.is_empty();
        self.attachments.iter().filter(move |_| supported).flat_map(Attachment::listeners)
    }
}
