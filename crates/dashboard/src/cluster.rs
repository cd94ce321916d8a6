//! The interface to the other parts of Longboat that have data for the page.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::{future::BoxFuture, stream::BoxStream};
use k8s_openapi::api::core::v1::Pod;
use longboat_key::{Key, Name, Namespace};
use serde::Serialize;
use serde_json::Value;

/// An entry in the list of services.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Head {
    /// `namespace/name`.
    pub service: String,
    /// The service's state, and the cause if it is not ready.
    pub text: String,
    /// `good`, `waiting` or `bad`.
    pub mark: &'static str,
    /// The names that clients may put in the `model` field of a request: first the model, then its adapters.
    pub models: Vec<String>,
    /// The engine, if a pod says which it is.
    pub engine: Option<String>,
    /// The replicas that are ready, and the replicas that should exist, prefill included.
    pub ready: i32,
    /// See `ready`.
    pub replicas: i32,
    /// The GPUs of the running pods, if they request any.
    pub gpus: Option<Gpus>,
}

/// GPUs that running pods have requested, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gpus {
    /// The number of GPUs.
    pub count: i64,
    /// When their pods started, in seconds since 1970. With several pods, their mean, so that the number of GPUs times the
    /// time since then is the sum of all GPU-hours.
    pub since: f64,
}

/// The state of the cluster at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    /// All services, sorted by name.
    pub services: Vec<Head>,
    /// The tree of the selected service, or `None` if it does not exist.
    pub tree: Option<Value>,
    /// The pods of services.
    pub pods: Vec<Arc<Pod>>,
    /// Why the connection to the cluster fails, if it does. The other fields may then be outdated.
    pub trouble: Option<String>,
}

/// The address to which chats with a service are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The whole URL.
    pub url: String,
    /// Headers that the service's route requires.
    pub headers: Vec<(String, String)>,
    /// The address of the host in the URL, if its name only leads there on this machine.
    pub resolve: Option<(String, SocketAddr)>,
    /// A model name that the service accepts.
    pub model: String,
}

/// The results of the binary's commands for a cluster or a local cluster. Errors are sentences for a person.
pub trait Cluster: Send + Sync + 'static {
    /// Streams the current state, and the state after each change.
    fn pictures(&self, service: Option<Key>) -> BoxStream<'static, Picture>;

    /// Returns the result of `longboat explain` for a service, or for one of its fields.
    fn explain(&self, service: Key, path: Option<String>) -> BoxFuture<'static, Result<Value, String>>;

    /// Returns the result of `longboat diff` for manifests.
    fn diff(&self, manifests: String) -> BoxFuture<'static, Result<Value, String>>;

    /// Returns the findings of `longboat doctor` about a service.
    fn findings(&self, service: Key) -> BoxFuture<'static, Result<Value, String>>;

    /// Returns the API keys of the gateway of this machine, with their limits and what they have used.
    fn keys(&self) -> BoxFuture<'static, Result<Value, String>>;

    /// Returns the address to which chats with a service are sent.
    fn address(&self, service: Key) -> BoxFuture<'static, Result<Address, String>>;
}

/// Parses `namespace/name`. Both must be valid Kubernetes names, because they become part of request paths.
pub(crate) fn parse_key(text: &str) -> Option<Key> {
    let (namespace, name) = text.split_once('/')?;
    (is_name(namespace) && is_name(name)).then(|| Key::new(Namespace(namespace), Name(name)))
}

/// Whether a text is a valid object name: lower-case letters, digits, `-` and `.`, at most 253 bytes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_objects_go_into_paths() {
        assert_eq!(parse_key("ns/a-1.b").unwrap().to_string(), "ns/a-1.b");
        for wrong in ["", "a", "/a", "a/", "a/b/c", "../a", "a/..", "a/b?c", "A/b", "a/b%2f", "-a/b"] {
            assert_eq!(parse_key(wrong), None, "{wrong}");
        }
        assert!(!is_name(&"a".repeat(254)));
    }
}
