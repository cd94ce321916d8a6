//! Endpoints from Kubernetes: the InferencePool and the pods that it selects.
//!
//! The pool is first looked up in the configured API group, then in the other group that InferencePools have had. A pool keeps
//! its name and its pods when a cluster moves from one group to the other.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::{
    Client, ResourceExt,
    api::DynamicObject,
    runtime::watcher::{self, Event},
};
use longboat_key::Namespace;
use longboat_watch::{Events, Watched, pools, text_of_watch};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{core::Core, pool::EndpointSpec};

/// Annotation that restricts which of the pool's ports a pod serves, and its former name.
const ACTIVE_PORTS: [&str; 2] = ["llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports"];

/// The selected pods, and the ports of each pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) selector: String,
    pub(crate) ports: Vec<u16>,
}

/// What selects the endpoints.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// An InferencePool, in this API group or the other one.
    Pool { group: String, name: String },
    /// Pods that the flags select.
    Pods(Selection),
}

/// Follows the pool and its pods until shutdown.
pub(crate) async fn follow(
    client: Client,
    namespace: String,
    source: Source,
    core: Arc<Core>,
    shutdown: CancellationToken,
) {
    let (mut first, mut second, selection): (Events<DynamicObject>, Events<DynamicObject>, _) = match source {
        Source::Pool { group, name } => {
            let watch = |group| longboat_watch::decoded(&client, &pools::selection(group, &namespace, &name));
            (watch(&group), watch(pools::other_group(&group)), None)
        }
        Source::Pods(selection) => {
            (futures::stream::pending().boxed(), futures::stream::pending().boxed(), Some(selection))
        }
    };
    let mut follower = Follower {
        client,
        namespace,
        core,
        selection: None,
        events: futures::stream::pending().boxed(),
        pods: Watched::default(),
        pools: Pools::default(),
    };
    follower.select(selection);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            Some(event) = first.next() => follower.pool_event(0, event),
            Some(event) = second.next() => follower.pool_event(1, event),
            Some(event) = follower.events.next() => follower.pod_event(event),
        }
    }
}

struct Follower {
    client: Client,
    namespace: String,
    core: Arc<Core>,
    selection: Option<Selection>,
    events: Events<Pod>,
    pods: Watched<Pod>,
    pools: Pools,
}

/// The pool in the configured API group, and in the other one.
#[derive(Debug, Default)]
struct Pools {
    found: [Option<Selection>; 2],
    /// Whether the list in progress contains the pool.
    listed: [bool; 2],
    /// Whether the configured group has been listed.
    known: bool,
    /// Whether the other group has been listed, or refused the list.
    is_other_known: bool,
    /// Whether the log says that neither group has the pool.
    is_missed: bool,
}

impl Pools {
    /// Applies a watch event. Returns whether the pool can be chosen now.
    fn note(&mut self, group: usize, event: watcher::Result<Event<DynamicObject>>) -> bool {
        self.is_other_known |= group == 1 && matches!(event, Ok(Event::InitDone) | Err(_));
        match event {
            Ok(Event::Init) => {
                self.listed[group] = false;
                return false;
            }
            Ok(Event::InitApply(pool) | Event::Apply(pool)) => {
                self.listed[group] = true;
                self.found[group] = selection(&pool.data);
                if self.found[group].is_none() {
                    tracing::warn!(pool = pool.name_any(), "The pool has no selector or no ports.");
                }
            }
            Ok(Event::InitDone) if self.listed[group] => {}
            Ok(Event::InitDone | Event::Delete(_)) => {
                self.listed[group] = false;
                self.found[group] = None;
            }
            Err(error) if is_not_served(&error) => self.found[group] = None,
            Err(error) if group == 0 => {
                tracing::warn!(error = %text_of_watch(&error), "Cannot watch the pool.");
                return false;
            }
            // Most clusters have only one of the groups, and give the picker no rights for the other one.
            Err(error) => {
                tracing::debug!(error = %text_of_watch(&error), "Cannot watch pools of the other group.");
                return false;
            }
        }
        self.known |= group == 0;
        self.known
    }

    /// Whether neither group has the pool any more. A pool without a selector has its own message.
    fn becomes_missed(&mut self) -> bool {
        let is_known = self.known && self.is_other_known;
        let is_missed = is_known && self.listed == [false; 2] && self.found == [None, None];
        !std::mem::replace(&mut self.is_missed, is_missed) && is_missed
    }

    fn choice(&self) -> Option<Selection> {
        self.found.iter().flatten().next().cloned()
    }
}

/// Whether the API server does not serve the group.
fn is_not_served(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(source) | watcher::Error::WatchStartFailed(source)) = error else {
        return false;
    };
    matches!(source, kube::Error::Api(answer) if answer.code == 404)
}

impl Follower {
    fn pool_event(&mut self, group: usize, event: watcher::Result<Event<DynamicObject>>) {
        if self.pools.note(group, event) {
            self.select(self.pools.choice());
        }
        if self.pools.becomes_missed() {
            tracing::warn!(
                namespace = self.namespace,
                "There is no InferencePool with the name of the flag --pool-name: the picker is not ready until it exists."
            );
        }
    }

    /// Watches other pods if the selection has changed.
    fn select(&mut self, selection: Option<Selection>) {
        if self.selection == selection {
            return;
        }
        let same_pods = match (&self.selection, &selection) {
            (Some(old), Some(new)) => old.selector == new.selector,
            _ => false,
        };
        self.selection = selection;
        // Only the ports differ, so the watch of the pods goes on.
        if same_pods {
            return self.publish();
        }
        self.pods = Watched::default();
        match &self.selection {
            None => {
                self.events = futures::stream::pending().boxed();
                self.core.clear_endpoints();
            }
            Some(selection) => {
                let pods = longboat_watch::Selection::of::<Pod>().within(Some(Namespace(&self.namespace)));
                self.events = longboat_watch::decoded(&self.client, &pods.labelled(&selection.selector));
            }
        }
    }

    fn pod_event(&mut self, event: watcher::Result<Event<Pod>>) {
        match self.pods.apply(event, Some) {
            Ok(true) => self.publish(),
            Ok(false) => {}
            Err(error) => tracing::warn!(error = %text_of_watch(&error), "Cannot watch the pods."),
        }
    }

    fn publish(&self) {
        // Before the first list is complete, an absent pod may exist. An empty pool would make the picker ready.
        if let Some(selection) = self.selection.as_ref().filter(|_| self.pods.is_synced) {
            self.core.set_endpoints(
                self.pods.now.values().flat_map(|pod| endpoints(pod, &selection.ports)).collect(),
            );
        }
    }
}

/// Returns the selector and the ports of an InferencePool of either version.
fn selection(pool: &Value) -> Option<Selection> {
    let ports = Some(pools::ports(pool)).filter(|ports| !ports.is_empty())?;
    Some(Selection { selector: pools::selector(pool)?, ports })
}

/// Returns one endpoint per port, if the pod is ready and not being deleted.
fn endpoints(pod: &Pod, ports: &[u16]) -> Vec<EndpointSpec> {
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
        .map(|(rank, port)| EndpointSpec {
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
    status.pod_ip.as_ref()?.parse().ok().filter(|_| is_ready(status))
}

/// Whether a pod is ready.
pub(crate) fn is_ready(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests;
