//! What the pods of a node share.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::address::AddressPool;
use crate::cache::Cache;
use crate::container::host::Host;
use crate::events::Recorder;
use crate::hosts::HostsFiles;
use crate::options::{ApiAccess, Timing};
use crate::pod_access::Registry;
use crate::reaper::Reaper;

/// Set when the node shuts down: the time at which its processes are killed.
pub(crate) type Shutdown = Option<Instant>;

/// Data that all pods of a node share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) node_name: String,
    /// The program that runs as `vllm`, and why, for the annotation of pods.
    pub(crate) engine_note: String,
    pub(crate) host: Arc<Host>,
    pub(crate) api: ApiAccess,
    pub(crate) api_host: String,
    pub(crate) api_port: String,
    pub(crate) pods_dir: PathBuf,
    pub(crate) claims_dir: PathBuf,
    pub(crate) timing: Timing,
    pub(crate) addresses: AddressPool,
    pub(crate) reaper: Reaper,
    pub(crate) recorder: Recorder,
    pub(crate) registry: Registry,
    pub(crate) services: Cache<Service>,
    /// `None` if containers have no mount namespaces.
    pub(crate) hosts: Option<Arc<HostsFiles>>,
    pub(crate) shutdown: watch::Receiver<Shutdown>,
}
