//! A registry of images and artifacts.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{Answer, Request};

/// Manifests by tag and digest, and blobs by digest, of one repository.
#[derive(Debug, Default)]
pub struct Registry {
    pub repository: String,
    pub manifests: BTreeMap<String, Value>,
    /// The exact bytes of manifests, where these matter.
    pub bytes: BTreeMap<String, Vec<u8>>,
    pub blobs: BTreeMap<String, Arc<Vec<u8>>>,
    /// `token` or `basic`.
    pub auth: Option<String>,
    /// The address that blob requests are redirected to.
    pub redirect: Option<String>,
    /// Its own address.
    pub address: parking_lot::Mutex<String>,
}

const LOGIN: &str = "Basic dXNlcjpwYXNz";

// === impl Registry ===

impl Registry {
    pub fn answer(&self, request: &Request) -> Answer {
        let shown = request.header("authorization").unwrap_or_default();
        if request.path() == "/token" {
            return if shown == LOGIN {
                Answer::new(200, r#"{"token":"t0k"}"#)
            } else {
                Answer::new(401, "")
            };
        }
        match self.auth.as_deref() {
            Some("token") if shown != "Bearer t0k" => {
                let realm = format!("http://{}/token", self.address.lock());
                let challenge =
                    format!("Bearer realm=\"{realm}\",service=\"reg\",scope=\"repository:m:pull\"");
                return Answer::new(401, "").with("WWW-Authenticate", challenge);
            }
            Some("basic") if shown != LOGIN => {
                return Answer::new(401, "").with("WWW-Authenticate", "Basic realm=\"reg\"");
            }
            _ => {}
        }
        let start = format!("/v2/{}/", self.repository);
        let Some(rest) = request.path().strip_prefix(&start) else { return Answer::new(404, "") };
        if let Some(reference) = rest.strip_prefix("manifests/") {
            let Some(bytes) = self.bytes.get(reference) else { return Answer::new(404, "") };
            let kind =
                serde_json::from_slice::<Value>(bytes).unwrap()["mediaType"].as_str().map(str::to_owned);
            return Answer::new(200, bytes.clone()).with("Content-Type", kind.unwrap_or_default());
        }
        let blob = rest.strip_prefix("blobs/").and_then(|digest| self.blobs.get(digest));
        match (blob, &self.redirect) {
            (None, _) => Answer::new(404, ""),
            (Some(_), Some(to)) => Answer::new(307, "").with("Location", format!("{to}{}", request.target)),
            (Some(content), None) => Answer::file(content),
        }
    }
}
