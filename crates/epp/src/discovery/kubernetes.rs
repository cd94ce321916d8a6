//! Endpoints from Kubernetes: the InferencePool, and the pods that it selects (contract 04 §3).

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{core::Core, pool::Desired};

/// Annotation that restricts which of the pool's ports a pod serves, and its former name.
const ACTIVE_PORTS: [&str; 2] = ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"];

/// Which pods, and which of their ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) selector: String,
    pub(crate) ports: Vec<u16>,
}

/// What to watch.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// An InferencePool, in this group.
    Pool { group: String, name: String },
    /// Pods as the flags say.
    Pods(Selection),
}

type Events<K> = Pin<Box<dyn Stream<Item = watcher::Result<Event<K>>> + Send>>;

/// Follows the pool and its pods until shutdown.
pub(crate) async fn follow(
    client: Client,
    namespace: String,
    source: Source,
    core: Arc<Core>,
    shutdown: CancellationToken,
) {
    let (mut pools, selection): (Events<DynamicObject>, _) = match source {
        Source::Pool { group, name } => (pool_events(&client, &namespace, &group, &name), None),
        Source::Pods(selection) => (futures::stream::pending().boxed(), Some(selection)),
    };
    let mut follower = Follower {
        client,
        namespace,
        core,
        selection: None,
        events: futures::stream::pending().boxed(),
        pods: BTreeMap::new(),
        listing: None,
        pool_listed: false,
    };
    follower.select(selection);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(event) = pools.next() => follower.pool_event(event),
            Some(event) = follower.events.next() => follower.pod_event(event),
        }
    }
}

fn pool_events(client: &Client, namespace: &str, group: &str, name: &str) -> Events<DynamicObject> {
    let version = if group == "inference.networking.x-k8s.io" { "v1alpha2" } else { "v1" };
    let kind = GroupVersionKind::gvk(group, version, "InferencePool");
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind));
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(api, only).default_backoff().boxed()
}

struct Follower {
    client: Client,
    namespace: String,
    core: Arc<Core>,
    selection: Option<Selection>,
    events: Events<Pod>,
    pods: BTreeMap<String, Pod>,
    /// Pods of a list that is not complete.
    listing: Option<BTreeMap<String, Pod>>,
    /// Whether the list in progress had the pool.
    pool_listed: bool,
}

impl Follower {
    fn pool_event(&mut self, event: watcher::Result<Event<DynamicObject>>) {
        match event {
            Ok(Event::Init) => self.pool_listed = false,
            Ok(Event::InitApply(pool) | Event::Apply(pool)) => {
                self.pool_listed = true;
                let selection = selection(&pool.data);
                if selection.is_none() {
                    tracing::warn!(pool = pool.name_any(), "The pool has no selector or no ports.");
                }
                self.select(selection);
            }
            Ok(Event::InitDone) => {
                if !self.pool_listed {
                    self.select(None);
                }
            }
            Ok(Event::Delete(_)) => self.select(None),
            Err(error) => tracing::warn!(%error, "Cannot watch the pool."),
        }
    }

    /// Follows other pods, where the selection changed.
    fn select(&mut self, selection: Option<Selection>) {
        if self.selection == selection {
            return;
        }
        let same_pods = match (&self.selection, &selection) {
            (Some(old), Some(new)) => old.selector == new.selector,
            _ => false,
        };
        self.selection = selection;
        if same_pods {
            return self.publish();
        }
        self.pods.clear();
        self.listing = None;
        match &self.selection {
            None => {
                self.events = futures::stream::pending().boxed();
                self.core.clear_endpoints();
            }
            Some(selection) => {
                let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
                let matching = watcher::Config::default().labels(&selection.selector);
                self.events = watcher(api, matching).default_backoff().boxed();
            }
        }
    }

    fn pod_event(&mut self, event: watcher::Result<Event<Pod>>) {
        match event {
            Ok(Event::Init) => self.listing = Some(BTreeMap::new()),
            Ok(Event::InitApply(pod)) => {
                let listing = self.listing.get_or_insert_default();
                listing.insert(pod.name_any(), pod);
            }
            Ok(Event::InitDone) => {
                self.pods = self.listing.take().unwrap_or_default();
                self.publish();
            }
            Ok(Event::Apply(pod)) => {
                self.pods.insert(pod.name_any(), pod);
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
        if let Some(selection) = &self.selection {
            self.core
                .set_endpoints(self.pods.values().flat_map(|pod| endpoints(pod, &selection.ports)).collect());
        }
    }
}

/// The selector and ports of an InferencePool of either generation.
fn selection(pool: &Value) -> Option<Selection> {
    let spec = pool.get("spec")?;
    let selector = spec.get("selector")?;
    let labels = selector.get("matchLabels").unwrap_or(selector).as_object()?;
    let selector: Vec<String> =
        labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
    let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok());
    let ports: Vec<u16> = match spec.get("targetPorts").and_then(Value::as_array) {
        Some(ports) => ports.iter().filter_map(|entry| entry.get("number").and_then(port)).collect(),
        None => spec.get("targetPortNumber").and_then(port).into_iter().collect(),
    };
    (!selector.is_empty() && !ports.is_empty()).then(|| Selection { selector: selector.join(","), ports })
}

/// One endpoint per port of a pod that is ready and stays.
fn endpoints(pod: &Pod, ports: &[u16]) -> Vec<Desired> {
    let Some(ip) = serving_ip(pod) else {
        return Vec::new();
    };
    let active: Option<Vec<u16>> = ACTIVE_PORTS
        .iter()
        .find_map(|annotation| pod.annotations().get(*annotation))
        .map(|list| list.split(',').filter_map(|port| port.trim().parse().ok()).collect());
    ports
        .iter()
        .enumerate()
        .filter(|(_, port)| active.as_ref().is_none_or(|active| active.contains(port)))
        .map(|(rank, port)| Desired {
            namespace: pod.namespace().unwrap_or_default(),
            name: format!("{}-rank-{rank}", pod.name_any()),
            address: SocketAddr::new(ip, *port),
            labels: pod.labels().clone(),
        })
        .collect()
}

fn serving_ip(pod: &Pod) -> Option<IpAddr> {
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = pod.status.as_ref()?;
    let ready = status
        .conditions
        .as_ref()?
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    if !ready {
        return None;
    }
    status.pod_ip.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests;
