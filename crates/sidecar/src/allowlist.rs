//! Which hosts prompts may be sent to: the pods of an InferencePool (contract 04 §10.3).

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::Arc,
};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::settings::Pool;

/// Names and addresses of the pool's pods, as last seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowlist(Arc<RwLock<BTreeSet<String>>>);

// === impl Allowlist ===

impl Allowlist {
    /// Whether a host, without its port, is a pod of the pool.
    pub(crate) fn allows(&self, host: &str) -> bool {
        self.0.read().contains(host)
    }
}

type Events<K> = Pin<Box<dyn Stream<Item = watcher::Result<Event<K>>> + Send>>;

/// The two groups that have had InferencePools, newest first.
const GROUPS: [(&str, &str); 2] =
    [("inference.networking.k8s.io", "v1"), ("inference.networking.x-k8s.io", "v1alpha2")];

/// The pool in the group that was asked for, or in the other one where the cluster serves only that: a pool keeps its name
/// and its pods when it moves.
async fn served(client: &Client, mut pool: Pool) -> Pool {
    for (group, version) in GROUPS.into_iter().filter(|(group, _)| *group != pool.group) {
        let is_missing =
            |error: &kube::Error| matches!(error, kube::Error::Api(answer) if answer.code == 404);
        let of = |group: &str, version: &str| {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "InferencePool"));
            Api::<DynamicObject>::namespaced_with(client.clone(), &pool.namespace, &resource)
        };
        let only = ListParams::default().fields(&format!("metadata.name={}", pool.name)).limit(1);
        let asked = of(&pool.group, version_of(&pool.group)).list(&only).await;
        if asked.is_err_and(|error| is_missing(&error)) && of(group, version).list(&only).await.is_ok() {
            tracing::info!(
                asked = pool.group,
                group,
                "The cluster serves InferencePools in the other group only."
            );
            pool.group = group.into();
            return pool;
        }
    }
    pool
}

fn version_of(group: &str) -> &'static str {
    GROUPS.iter().find(|(name, _)| *name == group).map_or("v1", |(_, version)| version)
}

/// Follows the pool and its pods until shutdown; `synced` turns true when both have been read once.
pub(crate) async fn follow(
    client: Client,
    pool: Pool,
    allowlist: Allowlist,
    synced: watch::Sender<bool>,
    shutdown: CancellationToken,
) {
    let Some(pool) = shutdown.run_until_cancelled(served(&client, pool)).await else { return };
    let kind = GroupVersionKind::gvk(&pool.group, version_of(&pool.group), "InferencePool");
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &pool.namespace, &ApiResource::from_gvk(&kind));
    let only = watcher::Config::default().fields(&format!("metadata.name={}", pool.name));
    let mut pools: Events<DynamicObject> = watcher(api, only).default_backoff().boxed();
    let mut follower = Follower {
        client,
        pool,
        allowlist,
        synced,
        selector: None,
        events: futures::stream::pending().boxed(),
        pods: BTreeMap::new(),
        listing: BTreeMap::new(),
        pool_listed: false,
    };
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(event) = pools.next() => follower.pool_event(event),
            Some(event) = follower.events.next() => follower.pod_event(event),
        }
    }
}

struct Follower {
    client: Client,
    pool: Pool,
    allowlist: Allowlist,
    synced: watch::Sender<bool>,
    selector: Option<String>,
    events: Events<Pod>,
    /// What each pod adds to the list.
    pods: BTreeMap<String, Vec<String>>,
    /// The same for a list that is not complete.
    listing: BTreeMap<String, Vec<String>>,
    pool_listed: bool,
}

// === impl Follower ===

impl Follower {
    fn pool_event(&mut self, event: watcher::Result<Event<DynamicObject>>) {
        match event {
            Ok(Event::Init) => self.pool_listed = false,
            Ok(Event::InitApply(pool) | Event::Apply(pool)) => {
                self.pool_listed = true;
                self.select(selector(&self.pool.group, &pool.data));
            }
            Ok(Event::InitDone) if self.pool_listed => {}
            Ok(Event::InitDone) => {
                tracing::warn!(
                    namespace = self.pool.namespace,
                    pool = self.pool.name,
                    "The pool does not exist: no prefill target is allowed until it does.",
                );
                self.select(None);
                self.publish();
            }
            Ok(Event::Delete(_)) => self.select(None),
            Err(error) => tracing::warn!(%error, pool = self.pool.name, "Cannot watch the pool."),
        }
    }

    /// Follows other pods, where the selector changed.
    fn select(&mut self, selector: Option<String>) {
        if self.selector == selector && selector.is_some() {
            return;
        }
        self.pods.clear();
        self.listing.clear();
        self.events = match &selector {
            None => {
                self.allowlist.0.write().clear();
                futures::stream::pending().boxed()
            }
            Some(selector) => {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.pool.namespace);
                watcher(api, watcher::Config::default().labels(selector)).default_backoff().boxed()
            }
        };
        self.selector = selector;
    }

    fn pod_event(&mut self, event: watcher::Result<Event<Pod>>) {
        match event {
            Ok(Event::Init) => self.listing.clear(),
            Ok(Event::InitApply(pod)) => {
                self.listing.insert(pod.name_any(), hosts(&pod));
            }
            Ok(Event::InitDone) => {
                self.pods = std::mem::take(&mut self.listing);
                self.publish();
            }
            Ok(Event::Apply(pod)) => {
                self.pods.insert(pod.name_any(), hosts(&pod));
                self.publish();
            }
            Ok(Event::Delete(pod)) => {
                self.pods.remove(&pod.name_any());
                self.publish();
            }
            Err(error) => tracing::warn!(%error, "Cannot watch the pods."),
        }
    }

    fn publish(&self) {
        *self.allowlist.0.write() = self.pods.values().flatten().cloned().collect();
        self.synced.send_replace(true);
    }
}

/// A pod can be meant by its address, or, once it has one, by its name.
fn hosts(pod: &Pod) -> Vec<String> {
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).filter(|ip| !ip.is_empty());
    ip.map(|ip| vec![ip, pod.name_any()]).unwrap_or_default()
}

/// The pool's selector: flat in the older group.
fn selector(group: &str, pool: &Value) -> Option<String> {
    let selector = pool.get("spec")?.get("selector")?;
    let labels = if group == "inference.networking.k8s.io" { selector.get("matchLabels")? } else { selector };
    let labels: Vec<String> = labels
        .as_object()?
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)))
        .collect();
    (!labels.is_empty()).then(|| labels.join(","))
}
