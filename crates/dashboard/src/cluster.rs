//! The interface to the other parts of Longboat that have data for the page.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use longboat_key::{
    Key, Name, Namespace,
    names::{is_label, is_subdomain},
};
use serde::{Deserialize, Serialize};
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

/// What to simulate.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Simulation {
    /// The kind of traffic, as `longboat simulate --generate` names it.
    pub traffic: String,
    /// Requests a second.
    pub rate: f64,
    /// The numbers of replicas to compare. Empty: the service's own, and some around it.
    #[serde(default)]
    pub replicas: Vec<usize>,
    /// Flags of the engine. Empty: those of `longboat up --engine sim`.
    #[serde(default)]
    pub engine_args: String,
}

/// The most numbers of replicas of a simulation, the most replicas, and the most requests a second. They bound its time.
const MAX_COLUMNS: usize = 6;
const MAX_REPLICAS: usize = 64;
const MAX_RATE: f64 = 1000.0;

impl Simulation {
    /// Reads the body of a request.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        let this: Self = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if !(this.rate > 0.0 && this.rate <= MAX_RATE) {
            return Err(format!(
                "rate {}: expected above 0 and at most {MAX_RATE} requests a second",
                this.rate
            ));
        }
        if this.replicas.len() > MAX_COLUMNS {
            return Err(format!(
                "{} numbers of replicas: expected at most {MAX_COLUMNS}",
                this.replicas.len()
            ));
        }
        match this.replicas.iter().find(|replicas| !(1..=MAX_REPLICAS).contains(*replicas)) {
            Some(replicas) => Err(format!("{replicas} replicas: expected 1 to {MAX_REPLICAS}")),
            None => Ok(this),
        }
    }
}

/// The results of the binary's commands for a cluster or a local cluster. Errors are sentences for a person.
#[async_trait]
pub trait Cluster: Send + Sync + 'static {
    /// Streams the current state, and the state after each change.
    fn pictures(&self, service: Option<Key>) -> BoxStream<'static, Picture>;

    /// Returns the result of `longboat explain` for a service, or for one of its fields.
    async fn explain(&self, service: Key, path: Option<String>) -> Result<Value, String>;

    /// Returns the result of `longboat diff` for manifests.
    async fn diff(&self, manifests: String) -> Result<Value, String>;

    /// Returns a page with the result of `longboat simulate` for a service, and notes about it.
    async fn simulate(&self, service: Key, wanted: Simulation) -> Result<Value, String>;

    /// Returns the findings of `longboat doctor` about a service.
    async fn findings(&self, service: Key) -> Result<Value, String>;

    /// Returns the API keys of the gateway of this machine, with their limits and what they have used.
    async fn keys(&self) -> Result<Value, String>;

    /// Returns the address to which chats with a service are sent.
    async fn address(&self, service: Key) -> Result<Address, String>;
}

/// Parses `namespace/name`. Both must be valid Kubernetes names, because they become part of request paths.
pub(crate) fn parse_key(text: &str) -> Option<Key> {
    let (namespace, name) = text.split_once('/')?;
    (is_label(namespace) && is_subdomain(name)).then(|| Key::new(Namespace(namespace), Name(name)))
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
    }

    #[test]
    fn a_simulation_is_bounded() {
        let parse = |text: &str| Simulation::parse(text.as_bytes());
        let least = Simulation {
            traffic: "agents".into(),
            rate: 2.5,
            replicas: Vec::new(),
            engine_args: String::new(),
        };
        assert_eq!(parse(r#"{"traffic": "agents", "rate": 2.5}"#), Ok(least));
        for (members, expected) in [
            (r#""rate": 0"#, "above 0 and at most 1000"),
            (r#""rate": 1001"#, "above 0 and at most 1000"),
            (r#""rate": 1, "replicas": [1, 65]"#, "65 replicas: expected 1 to 64"),
            (r#""rate": 1, "replicas": [0]"#, "0 replicas: expected 1 to 64"),
            (r#""rate": 1, "replicas": [1, 1, 1, 1, 1, 1, 1]"#, "7 numbers of replicas: expected at most 6"),
            (r#""rate": 1, "requests": 9"#, "unknown field `requests`"),
        ] {
            let error = parse(&format!(r#"{{"traffic": "agents", {members}}}"#)).unwrap_err();
            assert!(error.contains(expected), "{members}: {error}");
        }
    }
}
