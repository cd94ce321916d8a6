//! What the page shows and other parts of Longboat know.

use std::fmt;

use futures::{future::BoxFuture, stream::BoxStream};
use serde::Serialize;
use serde_json::Value;

/// A service: its namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// A service in the list of services.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Head {
    /// `namespace/name`.
    pub service: String,
    /// Its state, and the cause where it is not ready.
    pub text: String,
    /// `good`, `waiting` or `bad`.
    pub mark: &'static str,
}

/// What there is to see at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    /// All services, by name.
    pub services: Vec<Head>,
    /// The tree of the service that was asked for; `None` where there is no such service.
    pub tree: Option<Value>,
    /// Why nothing is heard of the cluster, if so: the rest may be old then.
    pub trouble: Option<String>,
}

/// Where a service answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Without a slash at the end.
    pub url: String,
    /// A model name that it answers to.
    pub model: String,
}

/// What the commands of the binary know about a cluster or a local world. Errors are sentences for a person.
pub trait Cluster: Send + Sync + 'static {
    /// What there is to see now, and again whenever it changes.
    fn pictures(&self, service: Option<ServiceName>) -> BoxStream<'static, Picture>;

    /// What `longboat explain` says about a service, or about a field of it.
    fn explain(
        &self,
        service: ServiceName,
        path: Option<String>,
    ) -> BoxFuture<'static, Result<Value, String>>;

    /// What `longboat diff` says about manifests.
    fn diff(&self, manifests: String) -> BoxFuture<'static, Result<Value, String>>;

    /// What `longboat doctor` finds about a service.
    fn findings(&self, service: ServiceName) -> BoxFuture<'static, Result<Value, String>>;

    /// Where a service answers.
    fn address(&self, service: ServiceName) -> BoxFuture<'static, Result<Address, String>>;
}

// === impl ServiceName ===

impl ServiceName {
    /// Reads `namespace/name`. Both must be names as Kubernetes has them: they go into paths of requests.
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        (is_name(namespace) && is_name(name))
            .then(|| Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// Whether this is the name of an object: lower-case letters, digits, `-` and `.`, at most 253 bytes.
pub(crate) fn is_name(text: &str) -> bool {
    let is_inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let is_outer = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= 253
        && bytes.iter().copied().all(is_inner)
        && bytes.first().is_some_and(is_outer)
        && bytes.last().is_some_and(is_outer)
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_objects_go_into_paths() {
        assert_eq!(ServiceName::parse("ns/a-1.b").unwrap().to_string(), "ns/a-1.b");
        for wrong in ["", "a", "/a", "a/", "a/b/c", "../a", "a/..", "a/b?c", "A/b", "a/b%2f", "-a/b"] {
            assert_eq!(ServiceName::parse(wrong), None, "{wrong}");
        }
        assert!(!is_name(&"a".repeat(254)));
    }
}
