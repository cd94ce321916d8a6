//! The endpoints that prompts may be sent to: the pods of an InferencePool, on their ports.
//!
//! The ports of a pod are those that its containers declare, and those of the pool. If a pod declares no ports, any port is
//! allowed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
    runtime::watcher::{self, Event},
};
use longboat_key::Namespace;
use longboat_watch::{Events, Selection, Watched, has_code, pools, text_of_watch};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::settings::Pool;

/// Names and addresses of the pool's pods with their ports, as last seen. Nothing is allowed until the pods are known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowlist(Arc<RwLock<BTreeMap<String, Ports>>>);

/// The ports of a pod. Empty means any port.
type Ports = BTreeSet<u16>;

/// How much of the pool has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PoolKnowledge {
    Nothing,
    Pool,
    Pods,
}

// === impl Allowlist ===

impl Allowlist {
    /// Whether an endpoint belongs to the pool. Without a port, only the host is checked: an entry without a port is not a
    /// valid endpoint and is refused later.
    pub(crate) fn allows(&self, host: &str, port: Option<u16>) -> bool {
        let allowed = self.0.read();
        allowed
            .get(host)
            .is_some_and(|ports| ports.is_empty() || port.is_none_or(|port| ports.contains(&port)))
    }
}

#[cfg(test)]
impl Allowlist {
    /// Creates a list of these endpoints. Each is a host with one port.
    pub(crate) fn of(endpoints: &[(&str, u16)]) -> Self {
        let listed = endpoints.iter().map(|(host, port)| ((*host).to_owned(), Ports::from([*port])));
        Self(Arc::new(RwLock::new(listed.collect())))
    }
}

/// Returns the pool in the configured group, or in the other group if the cluster serves only that one.
async fn served(client: &Client, mut pool: Pool) -> Pool {
    let only = ListParams::default().fields(&format!("metadata.name={}", pool.name)).limit(1);
    let list = async |group: &str| {
        let resource = pools::resource(group);
        let all = Api::<DynamicObject>::namespaced_with(client.clone(), &pool.namespace, &resource);
        all.list(&only).await
    };
    let other = pools::other_group(&pool.group);
    // Any other error, such as a missing right, says nothing about the group.
    if list(&pool.group).await.is_err_and(|error| has_code(&error, 404)) && list(other).await.is_ok() {
        tracing::info!(
            asked = pool.group,
            group = other,
            "The cluster serves InferencePools only in the other API group."
        );
        pool.group = other.into();
    }
    pool
}

/// Follows the pool and its pods until shutdown. `known` reports how much has been read.
pub(crate) async fn follow(
    client: Client,
    pool: Pool,
    allowlist: Allowlist,
    known: watch::Sender<PoolKnowledge>,
    shutdown: CancellationToken,
) {
    let Some(pool) = shutdown.run_until_cancelled(served(&client, pool)).await else { return };
    let only = pools::selection(&pool.group, &pool.namespace, &pool.name);
    let mut pools: Events<DynamicObject> = longboat_watch::decoded(&client, &only);
    let mut follower = Follower {
        client,
        pool,
        allowlist,
        known,
        selector: None,
        ports: Ports::new(),
        events: futures::stream::pending().boxed(),
        pods: Watched::default(),
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

/// The names of a pod, and the ports that it declares.
type PodAddresses = (Vec<String>, Ports);

struct Follower {
    client: Client,
    pool: Pool,
    allowlist: Allowlist,
    known: watch::Sender<PoolKnowledge>,
    selector: Option<String>,
    /// The ports of the pool.
    ports: Ports,
    events: Events<Pod>,
    /// The list entry of each pod.
    pods: Watched<PodAddresses>,
    pool_listed: bool,
}

// === impl Follower ===

impl Follower {
    fn pool_event(&mut self, event: watcher::Result<Event<DynamicObject>>) {
        match event {
            // Whether the new list has the pool is known at its end.
            Ok(Event::Init) => self.pool_listed = false,
            Ok(Event::InitApply(pool) | Event::Apply(pool)) => {
                self.pool_listed = true;
                self.select(pools::selector(&pool.data));
                let ports = pools::ports(&pool.data).into_iter().collect();
                if self.ports != ports {
                    self.ports = ports;
                    self.list();
                }
            }
            Ok(Event::InitDone) if self.pool_listed => self.knows(PoolKnowledge::Pool),
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
            Err(error) => {
                tracing::warn!(error = %text_of_watch(&error), pool = self.pool.name, "Cannot watch the pool.");
            }
        }
    }

    /// Watches other pods if the selector has changed.
    fn select(&mut self, selector: Option<String>) {
        if self.selector == selector && selector.is_some() {
            return;
        }
        self.pods = Watched::default();
        self.events = match &selector {
            None => {
                self.allowlist.0.write().clear();
                futures::stream::pending().boxed()
            }
            // The list keeps the former pods until the new ones are known.
            Some(selector) => {
                let pods = Selection::of::<Pod>().within(Some(Namespace(&self.pool.namespace)));
                longboat_watch::decoded(&self.client, &pods.labelled(selector))
            }
        };
        self.selector = selector;
    }

    fn pod_event(&mut self, event: watcher::Result<Event<Pod>>) {
        match self.pods.apply(event, |pod| Some(listed(&pod))) {
            Ok(true) => self.publish(),
            Ok(false) => {}
            Err(error) => tracing::warn!(error = %text_of_watch(&error), "Cannot watch the pods."),
        }
    }

    fn publish(&self) {
        self.list();
        self.knows(PoolKnowledge::Pods);
    }

    fn list(&self) {
        list(&self.allowlist, self.pods.now.values(), &self.ports);
    }

    fn knows(&self, more: PoolKnowledge) {
        self.known.send_if_modified(|known| {
            let news = *known < more;
            *known = more.max(*known);
            news
        });
    }
}

/// Replaces the allow-list by these pods.
fn list<'a>(allowlist: &Allowlist, pods: impl IntoIterator<Item = &'a PodAddresses>, pool: &Ports) {
    let mut allowed: BTreeMap<String, Ports> = BTreeMap::new();
    for (names, declared) in pods {
        let ports: Ports =
            if declared.is_empty() { Ports::new() } else { declared.union(pool).copied().collect() };
        allowed.extend(names.iter().map(|name| (name.clone(), ports.clone())));
    }
    *allowlist.0.write() = allowed;
}

/// Returns the list entry of a pod. The header may name the pod by its address or by its name. A pod without an address is
/// not listed.
fn listed(pod: &Pod) -> PodAddresses {
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).filter(|ip| !ip.is_empty());
    let name = Some(pod.name_any()).filter(|name| !is_number(name));
    let names = ip.map(|ip| std::iter::once(ip).chain(name).collect()).unwrap_or_default();
    let spec = pod.spec.iter();
    // A sidecar may be an init container that never ends (KEP-753), and has the port of the service.
    let containers =
        spec.flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let declared = containers.flat_map(|container| container.ports.iter().flatten());
    (names, declared.filter_map(|port| u16::try_from(port.container_port).ok()).collect())
}

/// Whether a resolver may take a name for an address: `169.254.169.254` and `0x7f000001` can be names of pods.
fn is_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_all = |text: &str, of: fn(&u8) -> bool| text.bytes().all(|byte| of(&byte));
    is_all(last, u8::is_ascii_digit)
        || last.strip_prefix("0x").is_some_and(|digits| is_all(digits, u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(ports: &[u16]) -> Pod {
        let ports: Vec<_> = ports.iter().map(|port| json!({"containerPort": port})).collect();
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "main", "ports": ports}]},
            "status": {"podIP": "10.0.0.1"},
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_whose_name_is_an_address_does_not_allow_that_address() {
        for (name, is_name) in [
            ("llm-0", true),
            ("7b-chat-x2", true),
            ("10x", true),
            ("169.254.169.254", false),
            ("2852039166", false),
            ("0xa9fea9fe", false),
            ("a.1", false),
        ] {
            let mut pod = pod(&[8000]);
            pod.metadata.name = Some(name.into());
            let allowed = Allowlist::default();
            list(&allowed, [&listed(&pod)], &Ports::new());
            assert_eq!(allowed.allows(name, Some(8000)), is_name, "{name}");
            assert!(allowed.allows("10.0.0.1", Some(8000)), "{name}");
        }
    }

    #[test]
    fn a_pods_ports_are_those_that_it_declares_and_those_of_the_pool() {
        let pool = Ports::from([8000, 8001]);
        let allowed = Allowlist::default();
        assert!(!allowed.allows("10.0.0.1", Some(8000)), "nothing is known yet");
        list(&allowed, [&listed(&pod(&[9000]))], &pool);
        for (host, port, expected) in [
            ("10.0.0.1", Some(8001), true),
            ("p", Some(9000), true),
            ("10.0.0.1", Some(22), false),
            ("10.0.0.2", Some(8000), false),
            ("10.0.0.1", None, true),
        ] {
            assert_eq!(allowed.allows(host, port), expected, "{host} {port:?}");
        }
        list(&allowed, [&listed(&pod(&[]))], &pool);
        assert!(allowed.allows("10.0.0.1", Some(22)), "the pod does not say");
    }
}
