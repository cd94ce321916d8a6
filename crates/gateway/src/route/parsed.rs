//! Routes as far as they can be compiled without other objects. This is done once for each version of a route, because
//! compiling regular expressions is expensive.

use std::{collections::HashMap, sync::Arc, time::Duration};

use longboat_api::foreign::httproute::{HTTPRoute, HTTPRouteMatch, HTTPRouteRule};
use longboat_key::Key;

use super::{
    duration,
    filter::{self, Filters},
    matching::{self, Matcher},
    retry::Retry,
};
use crate::RoutingInputs;

/// A route of the Gateway API, compiled.
#[derive(Debug)]
pub(crate) struct ParsedRoute {
    pub(crate) route: Arc<HTTPRoute>,
    pub(crate) key: Key,
    /// The fields that this gateway does not implement, by path. Such a route is refused as a whole, because ignoring the
    /// fields would silently be wrong.
    pub(crate) unsupported: Vec<String>,
    pub(crate) rules: Vec<ParsedRule>,
}

/// A rule of a route.
#[derive(Debug)]
pub(crate) struct ParsedRule {
    pub(crate) matchers: Vec<Arc<Matcher>>,
    pub(super) filters: Arc<Filters>,
    /// The filters of each back end.
    pub(super) backend_filters: Vec<Arc<Filters>>,
    pub(super) request_timeout: Option<Duration>,
    pub(super) backend_timeout: Option<Duration>,
    pub(super) retry: Option<Retry>,
}

/// Parses routes, and remembers the results.
#[derive(Debug, Default)]
pub(crate) struct RouteParser {
    known: HashMap<Key, Arc<ParsedRoute>>,
}

// === impl RouteParser ===

impl RouteParser {
    /// Returns all routes, the oldest first, then by `namespace/name`: this is the precedence among equal matches.
    pub(crate) fn parse(&mut self, observed: &RoutingInputs) -> Vec<Arc<ParsedRoute>> {
        let parse = |route: &Arc<HTTPRoute>| {
            let key = Key::of(route.as_ref());
            let known = self.known.get(&key).filter(|known| Arc::ptr_eq(&known.route, route));
            known.cloned().unwrap_or_else(|| Arc::new(ParsedRoute::new(route, key)))
        };
        let mut routes: Vec<_> = observed.routes.iter().map(parse).collect();
        // Made anew, so that routes that are gone are forgotten.
        self.known = routes.iter().map(|route| (route.key.clone(), route.clone())).collect();
        routes.sort_by_cached_key(|route| {
            (route.route.metadata.creation_timestamp.as_ref().map(|time| time.0), route.key.to_string())
        });
        routes
    }
}

// === impl ParsedRoute ===

impl ParsedRoute {
    pub(crate) fn new(route: &Arc<HTTPRoute>, key: Key) -> Self {
        let regex_limit = matching::regex_limit(route);
        let rules = route.spec.rules.iter().map(|rule| ParsedRule::new(rule, regex_limit)).collect();
        Self { unsupported: unsupported(route, regex_limit), rules, key, route: route.clone() }
    }
}

// === impl ParsedRule ===

impl ParsedRule {
    fn new(rule: &HTTPRouteRule, regex_limit: usize) -> Self {
        let timeout = |text: Option<&String>| {
            text.and_then(|text| duration::parse(text)).filter(|time| !time.is_zero())
        };
        let timeouts = rule.timeouts.clone().unwrap_or_default();
        let anything = [HTTPRouteMatch::default()];
        let matches = if rule.matches.is_empty() { &anything[..] } else { &rule.matches[..] };
        Self {
            matchers: matches.iter().map(|matching| Arc::new(Matcher::new(matching, regex_limit))).collect(),
            filters: Filters::shared(&rule.filters),
            backend_filters: rule
                .backend_refs
                .iter()
                .map(|reference| Filters::shared(&reference.filters))
                .collect(),
            request_timeout: timeout(timeouts.request.as_ref()),
            backend_timeout: timeout(timeouts.backend_request.as_ref()),
            retry: rule.retry.as_ref().and_then(Retry::new),
        }
    }
}

fn unsupported(route: &HTTPRoute, regex_limit: usize) -> Vec<String> {
    let mut fields = Vec::new();
    for (index, rule) in route.spec.rules.iter().enumerate() {
        let at = format!("spec.rules[{index}]");
        fields.extend(
            rule.retry.as_ref().filter(|retry| Retry::new(retry).is_none()).map(|_| format!("{at}.retry")),
        );
        if rule.session_persistence.is_some() {
            fields.push(format!("{at}.sessionPersistence"));
        }
        for (name, text) in [
            ("request", rule.timeouts.as_ref().and_then(|timeouts| timeouts.request.as_ref())),
            ("backendRequest", rule.timeouts.as_ref().and_then(|timeouts| timeouts.backend_request.as_ref())),
        ] {
            if text.is_some_and(|text| duration::parse(text).is_none()) {
                fields.push(format!("{at}.timeouts.{name}"));
            }
        }
        fields.extend(filter::unsupported(&rule.filters, &at, &filter::OF_RULES));
        for (number, backend) in rule.backend_refs.iter().enumerate() {
            let at = format!("{at}.backendRefs[{number}]");
            fields.extend(filter::unsupported(&backend.filters, &at, &filter::OF_BACK_ENDS));
        }
        for (number, matching) in rule.matches.iter().enumerate() {
            let at = format!("{at}.matches[{number}]");
            fields.extend(matching::unsupported(matching, &at, regex_limit));
        }
    }
    fields
}
