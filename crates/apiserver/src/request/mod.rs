//! A parsed request: path, query, accepted media types, body.

pub(crate) mod accept;
pub(crate) mod decode;
pub(crate) mod path;
pub(crate) mod query;

use bytes::Bytes;
use http::{HeaderMap, Method};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::{accept::Accept, query::Query};

/// The user who sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

// === impl User ===

impl User {
    /// The user with all rights: who holds the server's token, or who calls from within this process.
    pub(crate) fn administrator() -> Self {
        Self {
            name: "admin".to_owned(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        }
    }

    /// A service account.
    pub(crate) fn account(namespace: &str, name: &str) -> Self {
        Self::named(&format!("system:serviceaccount:{namespace}:{name}"), Vec::new())
    }

    /// A user with the groups that their name implies.
    pub(crate) fn named(name: &str, mut groups: Vec<String>) -> Self {
        if let Some(account) = name.strip_prefix("system:serviceaccount:")
            && let Some((namespace, _)) = account.split_once(':')
            && groups.is_empty()
        {
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        if !groups.iter().any(|group| group == "system:authenticated") && name != "system:anonymous" {
            groups.push("system:authenticated".to_owned());
        }
        Self { name: name.to_owned(), groups }
    }

    /// Whether the user may do everything.
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }

    /// The user in the form of `userInfo` in reviews.
    pub(crate) fn info(&self) -> Value {
        json!({"username": self.name, "groups": self.groups})
    }
}

/// A request with its whole body.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    /// The query as it was sent.
    pub(crate) raw_query: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) accept: Accept,
    pub(crate) body: Bytes,
    pub(crate) user: User,
    /// Closes the connection; `None` for clients in this process.
    pub(crate) connection: Option<CancellationToken>,
    /// Present if the transport can change the protocol (port-forward, exec).
    pub(crate) upgrade: Mutex<Option<OnUpgrade>>,
}

// === impl Request ===

impl Request {
    /// Returns a header as text, or an empty text if the header is missing or not text.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The media type of the body without parameters, lower case.
    pub(crate) fn content_type(&self) -> String {
        let header = self.header("content-type");
        header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns `fieldManager` or, if the query has none, the first part of the user agent, as kube-apiserver does.
    pub(crate) fn field_manager(&self) -> String {
        if let Some(manager) = self.query.get("fieldManager").filter(|m| !m.is_empty()) {
            return manager.to_owned();
        }
        let agent = self.header("user-agent");
        let prefix: String = agent.split('/').next().unwrap_or_default().chars().take(128).collect();
        if prefix.is_empty() { "unknown".to_owned() } else { prefix }
    }
}
