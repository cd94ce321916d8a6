//! The API keys of a server, as vLLM asks for them: `--api-key`, or else the variable `VLLM_API_KEY`.

use std::{fmt, sync::Arc};

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// The variable with the key, if no flag has one.
pub(crate) const VARIABLE: &str = "VLLM_API_KEY";

/// The beginnings of the paths that need a key. Health, metrics and the version need none.
const GUARDED: [&str; 4] = ["/v1", "/v2", "/inference", "/cohere"];

/// The SHA-256 hashes of the keys that a server accepts. Without keys, it accepts every request.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ApiKeys(Arc<[[u8; 32]]>);

// === impl ApiKeys ===

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

impl ApiKeys {
    /// Hashes keys. Like vLLM, it takes an empty text and `None` for no key.
    pub(crate) fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        let keys = keys.into_iter().filter(|key| !["", "None"].contains(key));
        Self(keys.map(hash).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request with these headers has one of the keys. Hashes are compared, so the time says nothing about the keys.
    fn admit(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(header::AUTHORIZATION).and_then(|sent| sent.to_str().ok());
        let Some((scheme, key)) = sent.and_then(|sent| sent.split_once(' ')) else { return false };
        scheme.eq_ignore_ascii_case("bearer") && self.0.contains(&hash(key))
    }
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// Refuses requests without a key, in vLLM's words.
pub(crate) async fn guard(State(keys): State<ApiKeys>, request: Request, next: Next) -> Response {
    // A browser asks with OPTIONS whether it may send the header with the key, and cannot send the key with that.
    let needs_key = request.method() != Method::OPTIONS
        && GUARDED.iter().any(|prefix| request.uri().path().starts_with(prefix));
    if needs_key && !keys.admit(request.headers()) {
        return (StatusCode::UNAUTHORIZED, Json(json!({"error": "Unauthorized"}))).into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_the_keys_is_enough_and_none_is_shown() {
        let keys = ApiKeys::new(["one", "", "two", "None"]);
        assert_eq!(format!("{keys:?}"), "2 keys");
        let admits =
            |sent: &str| keys.admit(&HeaderMap::from_iter([(header::AUTHORIZATION, sent.parse().unwrap())]));
        for (sent, expected) in [
            ("Bearer one", true),
            ("bearer two", true),
            ("Bearer None", false),
            ("Bearer ", false),
            ("Bearer on", false),
            ("Bearer  one", false),
            ("Basic one", false),
            ("one", false),
        ] {
            assert_eq!(admits(sent), expected, "{sent}");
        }
        assert!(!keys.admit(&HeaderMap::new()));
    }
}
