//! Routes as far as they can be compiled without other objects. This is done once for each spec of a route that a Gateway serves,
//! because compiling regular expressions is expensive.

use std::{collections::HashMap, sync::Arc, time::Duration};

use longboat_api::foreign::httproute::{HTTPRoute, HTTPRouteMatch, HTTPRouteRule};
use longboat_key::Key;

use super::{
    duration,
    expression::{MAX_GATEWAY_REGEX_BYTES, RegexBudget},
    filter::{self, Filters},
    matching::Matcher,
    retry::Retry,
};

/// A route of the Gateway API, compiled.
#[derive(Debug)]
pub(crate) struct ParsedRoute {
    pub(crate) route: Arc<HTTPRoute>,
    pub(crate) key: Key,
    /// The fields that this gateway does not implement, by path. Such a route is refused as a whole, because ignoring the
    /// fields would silently be wrong.
    pub(crate) unsupported: Vec<String>,
    /// The bytes of its regular expressions.
    pub(crate) regex_bytes: usize,
    /// Empty for a route that is not served.
    pub(crate) rules: Arc<[ParsedRule]>,
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
#[derive(Debug)]
pub(crate) struct RouteParser {
    known: HashMap<Key, Arc<ParsedRoute>>,
    /// Whether routes are served. Statuses need the sizes of regular expressions only.
    pub(crate) serves: bool,
    /// The most bytes of the regular expressions of all routes of a Gateway.
    pub(crate) max_regex_bytes: usize,
}

// === impl RouteParser ===

impl Default for RouteParser {
    fn default() -> Self {
        Self { known: HashMap::new(), serves: true, max_regex_bytes: MAX_GATEWAY_REGEX_BYTES }
    }
}

impl RouteParser {
    /// A parser of a process that serves nothing.
    pub(crate) fn for_statuses() -> Self {
        Self { serves: false, ..Self::default() }
    }

    /// Parses a route.
    pub(crate) fn parse(&self, route: &Arc<HTTPRoute>, key: &Key) -> Arc<ParsedRoute> {
        match self.known.get(key) {
            Some(known) if Arc::ptr_eq(&known.route, route) => known.clone(),
            // Statuses are written often.
            Some(known) if known.route.spec == route.spec => Arc::new(ParsedRoute {
                route: route.clone(),
                key: known.key.clone(),
                unsupported: known.unsupported.clone(),
                regex_bytes: known.regex_bytes,
                rules: known.rules.clone(),
            }),
            _ => Arc::new(ParsedRoute::new(route, key.clone())),
        }
    }

    /// Remembers these routes, and forgets others.
    pub(crate) fn remember(&mut self, routes: Vec<Arc<ParsedRoute>>) {
        self.known = routes.into_iter().map(|route| (route.key.clone(), route)).collect();
    }
}

// === impl ParsedRoute ===

impl ParsedRoute {
    pub(crate) fn new(route: &Arc<HTTPRoute>, key: Key) -> Self {
        let (mut budget, mut unsupported) = (RegexBudget::new(), Vec::new());
        let rules = route.spec.rules.iter().enumerate();
        let rules: Arc<[_]> = rules
            .map(|(index, rule)| {
                ParsedRule::new(rule, &format!("spec.rules[{index}]"), &mut budget, &mut unsupported)
            })
            .collect();
        if !unsupported.is_empty() {
            return Self { unsupported, ..Self::unattached(route, key) };
        }
        Self { route: route.clone(), key, unsupported, regex_bytes: budget.used(), rules }
    }

    /// A route that no Gateway serves. It is not compiled.
    pub(crate) fn unattached(route: &Arc<HTTPRoute>, key: Key) -> Self {
        Self { route: route.clone(), key, unsupported: Vec::new(), regex_bytes: 0, rules: Arc::new([]) }
    }

    /// The same without its regular expressions, and what uses them.
    pub(crate) fn without_rules(&self) -> Self {
        Self {
            unsupported: self.unsupported.clone(),
            regex_bytes: self.regex_bytes,
            ..Self::unattached(&self.route, self.key.clone())
        }
    }

    /// Whether it lacks regular expressions that it had.
    pub(crate) fn lacks_rules(&self) -> bool {
        self.regex_bytes > 0 && self.rules.is_empty()
    }
}

// === impl ParsedRule ===

impl ParsedRule {
    /// Compiles a rule, and adds to `fields` what is not implemented. `at` is the path of the rule.
    fn new(rule: &HTTPRouteRule, at: &str, budget: &mut RegexBudget, fields: &mut Vec<String>) -> Self {
        fields.extend(unsupported(rule, at));
        let timeout = |text: Option<&String>| {
            text.and_then(|text| duration::parse(text)).filter(|time| !time.is_zero())
        };
        let timeouts = rule.timeouts.clone().unwrap_or_default();
        let anything = [HTTPRouteMatch::default()];
        let matches = if rule.matches.is_empty() { &anything[..] } else { &rule.matches[..] };
        Self {
            matchers: matches
                .iter()
                .enumerate()
                .map(|(number, matching)| {
                    Arc::new(Matcher::new(matching, &format!("{at}.matches[{number}]"), budget, fields))
                })
                .collect(),
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

/// Returns the fields of a rule other than matches that are not implemented.
fn unsupported(rule: &HTTPRouteRule, at: &str) -> Vec<String> {
    let mut fields = Vec::new();
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
    fields.extend(filter::unsupported(&rule.filters, at, &filter::RULE_FILTERS));
    for (number, backend) in rule.backend_refs.iter().enumerate() {
        let at = format!("{at}.backendRefs[{number}]");
        fields.extend(filter::unsupported(&backend.filters, &at, &filter::BACK_END_FILTERS));
    }
    fields
}
