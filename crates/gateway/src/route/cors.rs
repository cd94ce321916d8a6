//! The CORS filter: which pages may send requests and read the responses.

use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use serde_json::Value;

/// A compiled CORS filter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Cors {
    allow_origins: Vec<String>,
    allow_methods: Vec<String>,
    allow_headers: Vec<String>,
    expose_headers: Vec<String>,
    allow_credentials: bool,
    max_age: i32,
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            allow_origins: Vec::new(),
            allow_methods: Vec::new(),
            allow_headers: Vec::new(),
            expose_headers: Vec::new(),
            allow_credentials: false,
            // The default of the Gateway API.
            max_age: 5,
        }
    }
}

// === impl Cors ===

impl Cors {
    pub(super) fn new(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }

    /// Whether pages of this origin may send requests.
    pub(crate) fn allows(&self, origin: &str) -> bool {
        self.allow_origins.iter().any(|allowed| allowed == "*" || covers(allowed, origin))
    }

    /// Adds the headers of the response to a preflight.
    pub(crate) fn answer_preflight(&self, request: &HeaderMap, headers: &mut HeaderMap) {
        self.share(request.get(header::ORIGIN), headers);
        let methods = self.listed(&self.allow_methods, request.get(header::ACCESS_CONTROL_REQUEST_METHOD));
        headers.extend(methods.map(|value| (header::ACCESS_CONTROL_ALLOW_METHODS, value)));
        let names = self.listed(&self.allow_headers, request.get(header::ACCESS_CONTROL_REQUEST_HEADERS));
        headers.extend(names.map(|value| (header::ACCESS_CONTROL_ALLOW_HEADERS, value)));
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(self.max_age));
    }

    /// Replaces the CORS headers of a back end.
    pub(crate) fn share(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        headers.remove(header::ACCESS_CONTROL_ALLOW_ORIGIN);
        headers.remove(header::ACCESS_CONTROL_ALLOW_CREDENTIALS);
        headers.remove(header::ACCESS_CONTROL_EXPOSE_HEADERS);
        let is_allowed = |origin: &&HeaderValue| origin.to_str().is_ok_and(|origin| self.allows(origin));
        let Some(origin) = origin.filter(is_allowed) else { return };
        // The origin itself, because a star allows no credentials, and pages cannot tell the difference otherwise.
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        if self.allow_credentials {
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        if let Ok(exposed) = HeaderValue::from_str(&self.expose_headers.join(", "))
            && !exposed.is_empty()
        {
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }

    /// Returns a list for a header. With credentials, a star means nothing to browsers, so what the request names is allowed.
    fn listed(&self, allowed: &[String], requested: Option<&HeaderValue>) -> Option<HeaderValue> {
        if allowed.iter().any(|allowed| allowed == "*") {
            return requested
                .filter(|_| self.allow_credentials)
                .cloned()
                .or(Some(HeaderValue::from_static("*")));
        }
        HeaderValue::from_str(&allowed.join(", ")).ok().filter(|value| !value.is_empty())
    }
}

/// Whether an origin is one that a filter names. A star stands for one or more characters of the host.
fn covers(allowed: &str, origin: &str) -> bool {
    let (allowed, origin) = (allowed.to_ascii_lowercase(), origin.to_ascii_lowercase());
    match allowed.split_once('*') {
        None => allowed == origin,
        Some((before, after)) => {
            origin.len() > before.len() + after.len() && origin.starts_with(before) && origin.ends_with(after)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_reads_responses_only_if_its_origin_is_allowed() {
        let cors = Cors::new(&json!({
            "allowOrigins": ["https://www.foo.com", "https://*.bar.com"], "allowMethods": ["GET"],
            "allowCredentials": true,
        }))
        .unwrap();
        for (origin, allowed) in [
            ("https://www.foo.com", true),
            ("https://WWW.foo.com", true),
            ("http://www.foo.com", false),
            ("https://a.b.bar.com", true),
            ("https://bar.com", false),
            ("https://.bar.com", false),
            ("https://www.foo.com.evil", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            cors.share(Some(&HeaderValue::from_static(origin)), &mut headers);
            assert_eq!(headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), allowed, "{origin}");
            assert_eq!(headers.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS), allowed, "{origin}");
        }
    }
}
