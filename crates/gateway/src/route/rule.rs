//! The rules of routes, with their back ends.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use longboat_api::foreign::{
    httproute::{HTTPRoute, HTTPRouteRule},
    httproute_filter::HTTPRouteFilter,
    reference::BackendObjectReference,
};
use longboat_key::{Key, Namespace};
use longboat_tls::KeyPair;

use super::{
    backend::{self, Backend, BackendResolver},
    filter::{Filters, MirrorSpec},
    parsed::{ParsedRoute, ParsedRule},
    retry::Retry,
};
use crate::{
    RoutingInputs,
    keys::{KeyScope, KeyedRoute},
    problem::Problem,
    scalable::{ScalableBackend, ScalableWorkloads},
};

/// How to handle requests that match.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) route: Key,
    pub(crate) filters: Arc<Filters>,
    pub(crate) mirrors: Vec<Mirror>,
    pub(crate) backends: Vec<WeightedBackend>,
    /// Timeout of the whole exchange.
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) attempts: Attempts,
}

/// How often and how long back ends are tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attempts {
    /// Timeout until a back end begins to answer.
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<Retry>,
}

/// A back end with its weight.
#[derive(Debug)]
pub(crate) struct WeightedBackend {
    pub(crate) weight: u32,
    pub(crate) backend: Result<Backend, Problem>,
    /// Set if a scaler may take all endpoints away.
    pub(crate) scalable: Option<Arc<ScalableBackend>>,
    /// Whose API keys its requests need, if they need any.
    pub(crate) key_scope: Option<Arc<KeyScope>>,
    pub(crate) filters: Arc<Filters>,
    pub(crate) mirrors: Vec<Mirror>,
}

/// A back end that gets copies of requests.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(crate) backend: Backend,
    /// The share of the requests, as numerator and denominator.
    pub(crate) share: (u32, u32),
}

// === impl Rule ===

impl Rule {
    pub(crate) fn new(
        resolver: &mut BackendResolver<'_>,
        workloads: &ScalableWorkloads,
        keyed: &KeyedRoute<'_>,
        route: &ParsedRoute,
        rule: &HTTPRouteRule,
        parsed: &ParsedRule,
    ) -> Self {
        let observed = resolver.observed;
        let namespace = route.key.namespace.as_deref();
        let weighted = rule.backend_refs.iter().zip(&parsed.backend_filters);
        Self {
            route: route.key.clone(),
            filters: parsed.filters.clone(),
            mirrors: mirrors(resolver, namespace, &rule.filters),
            backends: weighted
                .map(|(reference, filters)| WeightedBackend {
                    weight: reference.weight.map_or(1, |weight| u32::try_from(weight).unwrap_or(0)),
                    backend: resolver.resolve(namespace, &reference.backend),
                    scalable: workloads.behind(observed, namespace, &reference.backend),
                    key_scope: keyed.scope(observed, namespace, &reference.backend).map(Arc::new),
                    filters: filters.clone(),
                    mirrors: mirrors(resolver, namespace, &reference.filters),
                })
                .collect(),
            request_timeout: parsed.request_timeout,
            attempts: Attempts { timeout: parsed.backend_timeout, retry: parsed.retry.clone() },
        }
    }

    /// Makes connections to back ends with verified TLS show this certificate.
    pub(crate) fn present(&mut self, certificate: &Arc<KeyPair>) {
        let backends = self.backends.iter_mut().flat_map(|weighted| {
            let copies = weighted.mirrors.iter_mut().map(|mirror| &mut mirror.backend);
            weighted.backend.iter_mut().chain(copies)
        });
        let copies = self.mirrors.iter_mut().map(|mirror| &mut mirror.backend);
        backends.chain(copies).for_each(|backend| backend.present(certificate));
    }

    /// Chooses a back end by weight. `pick` gets the total of all weights and returns a number below it.
    pub(crate) fn choose(&self, pick: impl FnOnce(u32) -> u32) -> Option<&WeightedBackend> {
        // The API limits weights, but only where its definition is the one that limits them.
        let total = self.backends.iter().fold(0_u32, |total, backend| total.saturating_add(backend.weight));
        if total == 0 {
            return None;
        }
        // A back end of weight 0 is passed over: nothing is left to subtract.
        let mut left = pick(total);
        self.backends.iter().find(|backend| match left.checked_sub(backend.weight) {
            None => true,
            Some(rest) => {
                left = rest;
                false
            }
        })
    }
}

/// Returns the back ends that get copies. A back end that cannot be resolved gets none; the route's status says so.
fn mirrors(
    resolver: &mut BackendResolver<'_>,
    namespace: Namespace<&str>,
    filters: &[HTTPRouteFilter],
) -> Vec<Mirror> {
    let mirror = |spec: MirrorSpec| {
        let backend = resolver.resolve(namespace, &spec.backend_ref).ok()?;
        Some(Mirror { backend, share: spec.share() })
    };
    filters.iter().filter_map(MirrorSpec::of).filter_map(mirror).collect()
}

/// Returns the back ends of a route that cannot be resolved, without duplicates.
pub(crate) fn unresolved(observed: &RoutingInputs, route: &HTTPRoute) -> BTreeMap<&'static str, Vec<String>> {
    let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for reference in references(route) {
        if let Some(reason) = backend::problem(observed, Namespace::of(&route.metadata), &reference) {
            let messages = found.entry(reason.reason).or_default();
            if !messages.contains(&reason.message) {
                messages.push(reason.message);
            }
        }
    }
    found
}

/// Returns the references of a route to back ends, with those that get copies of requests.
pub(super) fn references(route: &HTTPRoute) -> Vec<BackendObjectReference> {
    let back_ends = route.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
    let filters = route.spec.rules.iter().flat_map(|rule| &rule.filters);
    let filters = filters.chain(back_ends.clone().flat_map(|reference| &reference.filters));
    let copies = filters.filter_map(MirrorSpec::of).map(|spec| spec.backend_ref);
    back_ends.map(|reference| reference.backend.clone()).chain(copies).collect()
}
