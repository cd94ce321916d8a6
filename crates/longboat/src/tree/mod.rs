//! The tree of a service: its conditions, its workloads and their pods.

mod age;
pub(crate) mod conditions;
pub(crate) mod data;
mod follow;
pub(crate) mod group;
pub(crate) mod lines;
mod list;
mod pods;
mod screen;
pub(crate) mod workloads;

use std::{sync::Arc, time::Duration};

pub(crate) use age::age;

pub(crate) use follow::{Follow, IDLE_REDRAW_INTERVAL, REDRAW_INTERVAL};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{apps::v1::Deployment, core::v1::Pod},
    jiff::Timestamp,
};
use kube::{Api, Client, Resource};
pub(crate) use list::list_objects;
use longboat_api::{foreign::leaderworkerset::LeaderWorkerSet, v1alpha2::LLMInferenceService};
use longboat_key::Namespace;
use longboat_watch::Selection;
pub(crate) use screen::{Screen, text};

/// The subject of the line that reports a failing connection to the cluster.
pub(crate) const CLUSTER: &str = "cluster";

/// The objects of the tree.
#[derive(Debug, Default)]
pub(crate) struct TreeObjects {
    pub(crate) services: Vec<Arc<LLMInferenceService>>,
    pub(crate) deployments: Vec<Arc<Deployment>>,
    pub(crate) sets: Vec<Arc<LeaderWorkerSet>>,
    pub(crate) pods: Vec<Arc<Pod>>,
}

/// The state that a line reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Good,
    Waiting,
    Bad,
}

/// One line of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The object of the line, which stays the same over time.
    pub(crate) subject: String,
    /// The text about the object.
    pub(crate) text: String,
    pub(crate) mark: Mark,
    pub(crate) depth: usize,
    /// The time that something took, or has taken so far.
    pub(crate) time: Option<Time>,
}

// === impl Line ===

impl Line {
    /// A line without a time.
    pub(crate) fn new(subject: String, text: String, mark: Mark, depth: usize) -> Self {
        Self { subject, text, mark, depth, time: None }
    }
}

/// The time on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// The current state has lasted since then.
    Since(Timestamp),
    /// The step took this long.
    Took(Duration),
}

/// The kind of environment in which services run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Environment {
    /// A local cluster without metrics and operators. Services serve without them.
    Laptop,
    Cluster,
}

/// The namespaces to show.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    Everywhere,
    Namespace(Namespace),
}

impl Scope {
    /// Selects the objects of a kind in this scope.
    fn all<K: Resource<DynamicType = ()>>(&self) -> Selection {
        match self {
            Self::Everywhere => Selection::of::<K>(),
            Self::Namespace(namespace) => Selection::of::<K>().within(Some(namespace.as_deref())),
        }
    }

    fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        match self {
            Self::Everywhere => Api::all(client.clone()),
            Self::Namespace(namespace) => Api::namespaced(client.clone(), namespace),
        }
    }
}
