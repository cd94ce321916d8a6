//! The compiled filters of a rule.

use std::sync::{Arc, LazyLock};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header, request::Parts, uri::PathAndQuery};
use longboat_api::foreign::httproute_filter::{HTTPHeaderFilter, HTTPPathModifier, HTTPRouteFilter};
use longboat_api::foreign::reference::BackendObjectReference;
use serde::Deserialize;

use super::cors::Cors;

/// All changes that a rule or back end makes to a request or its response.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Filters {
    pub(crate) request: HeaderEdits,
    pub(crate) response: HeaderEdits,
    pub(crate) path: Option<PathChange>,
    pub(crate) host: Option<HeaderValue>,
    pub(crate) redirect: Option<Redirect>,
    pub(crate) cors: Option<Cors>,
}

/// Header changes. They are applied in the order set, add, remove.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct HeaderEdits {
    set: Vec<(HeaderName, HeaderValue)>,
    add: Vec<(HeaderName, HeaderValue)>,
    remove: Vec<HeaderName>,
}

/// A change of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathChange {
    /// Replaces the whole path.
    Full(String),
    /// Replaces the prefix that matched.
    Prefix(String),
}

/// A redirect of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) scheme: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) path: Option<PathChange>,
    pub(crate) port: Option<u16>,
    pub(crate) status: StatusCode,
}

/// The filters of rules that are implemented.
pub(super) const RULE_FILTERS: [&str; 6] = [
    "RequestHeaderModifier",
    "ResponseHeaderModifier",
    "URLRewrite",
    "RequestRedirect",
    "RequestMirror",
    "CORS",
];
/// The filters of back ends that are implemented.
pub(super) const BACK_END_FILTERS: [&str; 5] =
    ["RequestHeaderModifier", "ResponseHeaderModifier", "URLRewrite", "RequestRedirect", "RequestMirror"];

/// Returns the filters that are not implemented, by field path.
pub(super) fn unsupported(filters: &[HTTPRouteFilter], at: &str, known: &[&str]) -> Vec<String> {
    let readable = |filter: &HTTPRouteFilter| match filter.type_.as_str() {
        "CORS" => filter.others.get("cors").and_then(Cors::new).is_some(),
        "RequestMirror" => MirrorSpec::of(filter).is_some(),
        _ => true,
    };
    let problem = |(index, filter): (usize, &HTTPRouteFilter)| {
        let at = format!("{at}.filters[{index}]");
        if !known.contains(&filter.type_.as_str()) || !readable(filter) {
            return Some(format!("{at} ({})", filter.type_));
        }
        let rewrite = filter.url_rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref());
        let redirect = filter.request_redirect.as_ref().and_then(|redirect| redirect.path.as_ref());
        let paths = [("urlRewrite", rewrite), ("requestRedirect", redirect)];
        paths.into_iter().find_map(|(name, modifier)| {
            let change = PathChange::new(modifier?)?;
            let (field, text) = unusable(&change)?;
            Some(format!(
                "{at}.{name}.path.{field} `{text}` (use a path that begins with `/`, with spaces and the like encoded)"
            ))
        })
    };
    filters.iter().enumerate().filter_map(problem).collect()
}

/// Returns the field and the text of a change that makes no path.
fn unusable(change: &PathChange) -> Option<(&'static str, &str)> {
    let (field, text) = match change {
        PathChange::Full(text) => ("replaceFullPath", text),
        PathChange::Prefix(text) => ("replacePrefixMatch", text),
    };
    let is_path = |text: &str| {
        text.starts_with('/') && text.parse::<PathAndQuery>().is_ok_and(|parsed| parsed.path() == text)
    };
    (!text.is_empty() && !is_path(text)).then_some((field, text))
}

/// A copy of requests to another back end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MirrorSpec {
    pub(super) backend_ref: BackendObjectReference,
    percent: Option<u32>,
    fraction: Option<Fraction>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Fraction {
    numerator: u32,
    denominator: Option<u32>,
}

// === impl MirrorSpec ===

impl MirrorSpec {
    pub(super) fn of(filter: &HTTPRouteFilter) -> Option<Self> {
        Self::deserialize(filter.others.get("requestMirror")?).ok()
    }

    /// Returns the share of requests to copy, as numerator and denominator.
    pub(super) fn share(&self) -> (u32, u32) {
        match (&self.fraction, self.percent) {
            // `max`: without its definition in the cluster, nobody refuses a denominator of 0.
            (Some(fraction), _) => (fraction.numerator, fraction.denominator.unwrap_or(100).max(1)),
            (None, Some(percent)) => (percent, 100),
            (None, None) => (1, 1),
        }
    }
}

// === impl Filters ===

impl Filters {
    /// Compiles filters. Most rules and back ends have none, and share that.
    pub(super) fn shared(filters: &[HTTPRouteFilter]) -> Arc<Self> {
        static NONE: LazyLock<Arc<Filters>> = LazyLock::new(Arc::default);
        if filters.is_empty() { NONE.clone() } else { Arc::new(Self::new(filters)) }
    }

    /// Changes a request, whose path begins with `prefix` if its rule matches a prefix.
    pub(crate) fn apply(&self, head: &mut Parts, prefix: Option<&str>) {
        self.request.apply(&mut head.headers);
        if let Some(host) = &self.host {
            head.headers.insert(header::HOST, host.clone());
        }
        if let Some(change) = &self.path
            && let Some(old) = head.uri.path_and_query()
            && let Some(new) = change.apply(old, prefix)
        {
            let mut parts = std::mem::take(&mut head.uri).into_parts();
            parts.path_and_query = Some(new);
            // Scheme and authority are unchanged, so the parts form a valid URI.
            head.uri = Uri::from_parts(parts).unwrap_or_default();
        }
    }

    pub(crate) fn new(filters: &[HTTPRouteFilter]) -> Self {
        let mut compiled = Self::default();
        for filter in filters {
            if let Some(edits) = &filter.request_header_modifier {
                compiled.request.extend(edits);
            }
            if let Some(edits) = &filter.response_header_modifier {
                compiled.response.extend(edits);
            }
            if let Some(rewrite) = &filter.url_rewrite {
                compiled.path = rewrite.path.as_ref().and_then(PathChange::new);
                compiled.host = rewrite.hostname.as_ref().and_then(|host| HeaderValue::from_str(host).ok());
            }
            if let Some(cors) = filter.others.get("cors").and_then(Cors::new) {
                compiled.cors = Some(cors);
            }
            if let Some(redirect) = &filter.request_redirect {
                let status = redirect.status_code.and_then(|code| u16::try_from(code).ok());
                compiled.redirect = Some(Redirect {
                    scheme: redirect.scheme.clone(),
                    host: redirect.hostname.clone(),
                    path: redirect.path.as_ref().and_then(PathChange::new),
                    port: redirect.port.and_then(|port| u16::try_from(port).ok()),
                    status: status
                        .and_then(|code| StatusCode::from_u16(code).ok())
                        .unwrap_or(StatusCode::FOUND),
                });
            }
        }
        compiled
    }
}

// === impl HeaderEdits ===

impl HeaderEdits {
    fn extend(&mut self, filter: &HTTPHeaderFilter) {
        let pair = |name: &str, value: &str| Some((name.parse().ok()?, HeaderValue::from_str(value).ok()?));
        self.set.extend(filter.set.iter().filter_map(|header| pair(&header.name, &header.value)));
        self.add.extend(filter.add.iter().filter_map(|header| pair(&header.name, &header.value)));
        self.remove.extend(filter.remove.iter().filter_map(|name| name.parse::<HeaderName>().ok()));
    }

    pub(crate) fn apply(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.set {
            headers.insert(name.clone(), value.clone());
        }
        for (name, value) in &self.add {
            headers.append(name.clone(), value.clone());
        }
        for name in &self.remove {
            headers.remove(name);
        }
    }
}

// === impl PathChange ===

impl PathChange {
    fn new(modifier: &HTTPPathModifier) -> Option<Self> {
        match modifier.type_.as_str() {
            "ReplaceFullPath" => modifier.replace_full_path.clone().map(Self::Full),
            _ => modifier.replace_prefix_match.clone().map(Self::Prefix),
        }
    }

    /// Returns the new path with the old query. `prefix` is the prefix that the rule matched.
    pub(crate) fn apply(&self, path: &PathAndQuery, prefix: Option<&str>) -> Option<PathAndQuery> {
        let new = match self {
            Self::Full(full) => full.clone(),
            Self::Prefix(replacement) => {
                let rest = prefix.and_then(|prefix| path.path().strip_prefix(prefix)).unwrap_or_default();
                let joined = replacement.trim_end_matches('/').to_owned() + rest;
                if joined.is_empty() { "/".into() } else { joined }
            }
        };
        let with_query = path.query().map_or_else(|| new.clone(), |query| format!("{new}?{query}"));
        with_query.parse().ok()
    }
}
