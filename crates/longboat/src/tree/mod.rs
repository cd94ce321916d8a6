//! The tree of a service: its conditions, its workloads and their pods, in one picture.

mod age;
pub(crate) mod data;
mod follow;
pub(crate) mod group;
pub(crate) mod lines;
mod look;
mod pods;
mod screen;
mod workloads;

use std::{sync::Arc, time::Duration};

pub(crate) use age::age;

pub(crate) use follow::Follow;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{apps::v1::Deployment, core::v1::Pod},
    jiff::Timestamp,
};
use kube::{Api, Client, Resource};
use longboat_api::{foreign::leaderworkerset::LeaderWorkerSet, v1alpha2::LLMInferenceService};
use longboat_watch::Selection;
pub(crate) use look::look;
pub(crate) use screen::{Screen, text};

/// Selects what belongs to services.
const PART_OF_A_SERVICE: &str = "app.kubernetes.io/part-of=llminferenceservice";

/// The subject of the line that says that nothing is heard of the cluster.
pub(crate) const CLUSTER: &str = "cluster";

/// Everything that is shown.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) services: Vec<Arc<LLMInferenceService>>,
    pub(crate) deployments: Vec<Arc<Deployment>>,
    pub(crate) sets: Vec<Arc<LeaderWorkerSet>>,
    pub(crate) pods: Vec<Arc<Pod>>,
}

/// How good a line's news is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Good,
    Waiting,
    Bad,
}

/// One line of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// What the line is about; the same over time.
    pub(crate) subject: String,
    /// What there is to say about it.
    pub(crate) text: String,
    pub(crate) mark: Mark,
    pub(crate) depth: usize,
    /// How long it took, or takes.
    pub(crate) time: Option<Time>,
}

/// A time that a line tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// What one waits for has been so since then.
    Since(Timestamp),
    /// It took so long.
    Took(Duration),
}

/// Where services run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Environment {
    /// In a local world, which has no metrics and no operators: services serve without them.
    Laptop,
    Cluster,
}

/// What is looked at.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    Everywhere,
    Namespace(String),
}

impl Scope {
    /// The objects of a kind in it.
    fn all<K: Resource<DynamicType = ()>>(&self) -> Selection {
        match self {
            Self::Everywhere => Selection::of::<K>(),
            Self::Namespace(namespace) => Selection::of::<K>().within(Some(namespace)),
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
