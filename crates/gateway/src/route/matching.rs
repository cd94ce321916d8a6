//! Matches a request against one `matches` entry, and orders entries of the same path by precedence.

use http::{HeaderName, Method, request::Parts};
use longboat_api::foreign::httproute::{HTTPHeaderMatch, HTTPRouteMatch};

use super::expression::{Expression, RegexBudget};

/// The type of a header's match that is a regular expression.
const REGULAR_EXPRESSION: &str = "RegularExpression";

/// The path of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Path {
    Exact(String),
    Prefix(String),
}

/// The accepted values of a header.
#[derive(Debug)]
pub(super) enum HeaderValue {
    Exact(String),
    Regex(Box<Expression>),
}

/// A compiled `matches` entry. All of its parts must match.
#[derive(Debug)]
pub(crate) struct Matcher {
    pub(super) path: Path,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) query: Vec<(String, String)>,
    method: Option<Method>,
}

/// The specificity of an entry among those of the same path, in the Gateway API's order of precedence.
pub(crate) type Rank = (bool, usize, usize);

/// Returns the parts of an entry other than headers that are not implemented, such as paths by regular expression.
fn unsupported(matching: &HTTPRouteMatch, at: &str) -> Vec<String> {
    let odd =
        |kind: Option<&String>, known: &[&str]| kind.is_some_and(|kind| !known.contains(&kind.as_str()));
    let mut fields = Vec::new();
    if matching.path.as_ref().is_some_and(|path| odd(path.type_.as_ref(), &["Exact", "PathPrefix"])) {
        fields.push(format!("{at}.path.type"));
    }
    if matching.query_params.iter().any(|param| odd(param.type_.as_ref(), &["Exact"])) {
        fields.push(format!("{at}.queryParams"));
    }
    fields
}

/// Compiles a header of an entry. The error says why this is not implemented, or not possible.
fn compiled(header: &HTTPHeaderMatch, budget: &mut RegexBudget) -> Result<(HeaderName, HeaderValue), String> {
    let value = match header.type_.as_deref() {
        None | Some("Exact") => HeaderValue::Exact(header.value.clone()),
        Some(REGULAR_EXPRESSION) => HeaderValue::Regex(Box::new(Expression::new(&header.value, budget)?)),
        Some(other) => return Err(format!("type {other}")),
    };
    Ok((header.name.parse().map_err(|_| "this is no name of a header")?, value))
}

// === impl HeaderValue ===

impl HeaderValue {
    fn accepts(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => value == exact.as_bytes(),
            Self::Regex(expression) => expression.accepts(value),
        }
    }

    /// Whether the values of a header are accepted. Several are one list (RFC 9110 §5.3): the back end gets all of them, so the
    /// first alone decides nothing.
    fn accepts_values(&self, values: &http::header::GetAll<'_, http::HeaderValue>) -> bool {
        let mut values = values.iter().map(http::HeaderValue::as_bytes);
        match (values.next(), values.next()) {
            (None, _) => false,
            (Some(only), None) => self.accepts(only),
            (Some(first), Some(second)) => {
                let list: Vec<_> = [first, second].into_iter().chain(values).collect();
                self.accepts(&list.join(&b","[..]))
            }
        }
    }
}

// === impl Matcher ===

impl Matcher {
    /// Compiles an entry, and adds to `fields` what is not implemented. `at` is the path of the entry.
    pub(super) fn new(
        matching: &HTTPRouteMatch,
        at: &str,
        budget: &mut RegexBudget,
        fields: &mut Vec<String>,
    ) -> Self {
        fields.extend(unsupported(matching, at));
        let path = matching.path.clone().unwrap_or_default();
        let value = path.value.unwrap_or_else(|| "/".into());
        let path = if path.type_.as_deref() == Some("Exact") {
            Path::Exact(value)
        } else {
            // `/a/` and `/a` are the same prefix in the Gateway API, and `/` is the empty one.
            Path::Prefix(value.trim_end_matches('/').into())
        };
        // If there are several entries for one header, only the first counts.
        let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
        for (index, header) in matching.headers.iter().enumerate() {
            // The route is refused already, and further expressions would only cost time.
            if budget.is_exceeded {
                break;
            }
            match compiled(header, budget) {
                Ok((name, value)) if headers.iter().all(|(seen, _)| *seen != name) => {
                    headers.push((name, value));
                }
                Ok(_) => {}
                Err(why) => fields.push(format!("{at}.headers[{index}] ({}: {why})", header.name)),
            }
        }
        Self {
            path,
            headers,
            query: matching
                .query_params
                .iter()
                .map(|param| (param.name.clone(), param.value.clone()))
                .collect(),
            method: matching.method.as_ref().and_then(|method| method.parse().ok()),
        }
    }

    pub(crate) fn matches(&self, head: &Parts) -> bool {
        self.accepts(head, &head.method)
            && self.headers.iter().all(|(name, value)| value.accepts_values(&head.headers.get_all(name)))
    }

    /// Whether the entry matches, if the method is this one and the headers are right.
    pub(crate) fn accepts(&self, head: &Parts, method: &Method) -> bool {
        let path = head.uri.path();
        (match &self.path {
            Path::Exact(exact) => path == exact,
            // A prefix covers whole path segments: `/ab` does not match the prefix `/a`.
            Path::Prefix(prefix) => path
                .strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }) && self.method.as_ref().is_none_or(|own| own == method)
            && self
                .query
                .iter()
                .all(|(name, value)| first_value(head.uri.query(), name).as_deref() == Some(value))
    }

    /// Returns the prefix that `ReplacePrefixMatch` replaces, or `None` for exact paths.
    pub(crate) fn prefix(&self) -> Option<&str> {
        match &self.path {
            Path::Exact(_) => None,
            Path::Prefix(prefix) => Some(prefix),
        }
    }

    pub(crate) fn rank(&self) -> Rank {
        (self.method.is_some(), self.headers.len(), self.query.len())
    }
}

fn first_value(query: Option<&str>, name: &str) -> Option<String> {
    url::form_urlencoded::parse(query?.as_bytes())
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}
