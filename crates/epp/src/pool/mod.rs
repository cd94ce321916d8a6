//! The endpoints of the pool, and what was scraped from each.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use longboat_scheduler::{Endpoint, Metrics, Slot, Slots, Snapshot};
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

mod tasks;

pub(crate) use tasks::{for_each_member, pass_panic_on};

/// An endpoint that should exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointSpec {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) labels: BTreeMap<String, String>,
}

/// An endpoint that exists.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) endpoint: Arc<Endpoint>,
    scraped: Arc<ArcSwap<MetricsSample>>,
    /// Shared with the later members of the same endpoint, which differ in labels only.
    gone: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct MetricsSample {
    metrics: Arc<Metrics>,
    at: Option<Instant>,
}

impl Member {
    /// Whether the endpoint has left the pool. Another endpoint may then have its slot.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Whether both are the same endpoint. Labels do not count.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.gone, &other.gone)
    }

    /// Whether the endpoint has said that it uses this LoRA adapter, or waits for it.
    pub(crate) fn has_adapter(&self, name: &str) -> bool {
        let adapters = self.scraped.load().metrics.lora.clone();
        adapters.is_some_and(|lora| lora.active.iter().chain(&lora.waiting).any(|adapter| adapter == name))
    }

    /// Stores the metrics that were scraped just now.
    pub(crate) fn scraped(&self, metrics: Metrics) {
        self.scraped.store(Arc::new(MetricsSample { metrics: Arc::new(metrics), at: Some(Instant::now()) }));
    }

    /// Returns the endpoint with its current metrics. Without a limit on their age, metrics are always fresh.
    pub(crate) fn snapshot(&self, now: Instant, stale_after: Option<Duration>) -> Snapshot {
        let scraped = self.scraped.load();
        let fresh = stale_after
            .is_none_or(|limit| scraped.at.is_some_and(|at| now.saturating_duration_since(at) <= limit));
        Snapshot { endpoint: Arc::clone(&self.endpoint), metrics: Arc::clone(&scraped.metrics), fresh }
    }
}

/// All members, and whether the pool has been read.
#[derive(Debug)]
pub(crate) struct Pool {
    members: ArcSwap<Vec<Arc<Member>>>,
    slots: Mutex<Slots>,
    synced: AtomicBool,
    changed: watch::Sender<()>,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            members: ArcSwap::default(),
            slots: Mutex::default(),
            synced: AtomicBool::new(false),
            changed: watch::Sender::new(()),
        }
    }

    pub(crate) fn members(&self) -> Arc<Vec<Arc<Member>>> {
        self.members.load_full()
    }

    /// The member with this slot, unless it has left.
    pub(crate) fn member(&self, slot: Slot) -> Option<Arc<Member>> {
        self.members.load().iter().find(|member| member.endpoint.slot == slot).cloned()
    }

    /// Returns a receiver that is notified when the members change.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Whether the pool and its pods have been read.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Removes all members and makes the pool not ready, because the pool is deleted or unknown. Returns the freed slots.
    pub(crate) fn clear(&self) -> Vec<Slot> {
        // Before the members go, and in `set` after they have come: a picker that is ready has its members.
        self.synced.store(false, Ordering::Release);
        self.replace(Vec::new())
    }

    /// Replaces the members. An endpoint that stays keeps its slot and its metrics, even if its labels change. Returns the
    /// freed slots.
    pub(crate) fn set(&self, desired: Vec<EndpointSpec>) -> Vec<Slot> {
        let freed = self.replace(desired);
        self.synced.store(true, Ordering::Release);
        freed
    }

    fn replace(&self, mut desired: Vec<EndpointSpec>) -> Vec<Slot> {
        let mut slots = self.slots.lock();
        let old = self.members();
        desired.sort_by(|left, right| (&left.namespace, &left.name).cmp(&(&right.namespace, &right.name)));
        desired.dedup_by(|left, right| left.namespace == right.namespace && left.name == right.name);
        let mut unchanged = old.len() == desired.len();
        let mut freed: BTreeMap<u32, Slot> =
            old.iter().map(|member| (member.endpoint.slot.0, member.endpoint.slot)).collect();
        let mut members = Vec::with_capacity(desired.len());
        let mut new = Vec::new();
        for wanted in desired {
            let known = old.iter().find(|member| {
                let endpoint = &member.endpoint;
                endpoint.namespace == wanted.namespace
                    && endpoint.name == wanted.name
                    && endpoint.address == wanted.address
            });
            match known {
                Some(member) => {
                    freed.remove(&member.endpoint.slot.0);
                    if member.endpoint.labels == wanted.labels {
                        members.push(Arc::clone(member));
                    } else {
                        unchanged = false;
                        members.push(Arc::new(Member {
                            endpoint: Arc::new(endpoint(wanted, member.endpoint.slot)),
                            scraped: Arc::clone(&member.scraped),
                            gone: Arc::clone(&member.gone),
                        }));
                    }
                }
                None => new.push(wanted),
            }
        }
        if unchanged && new.is_empty() {
            return Vec::new();
        }
        // New endpoints take their slots before the old ones give theirs up. The state of a freed slot is forgotten only after this
        // call, and until then requests would take it for that of the slot's next owner.
        for wanted in new {
            members.push(Arc::new(Member {
                endpoint: Arc::new(endpoint(wanted, slots.take())),
                scraped: Arc::default(),
                gone: Arc::default(),
            }));
        }
        for member in old.iter().filter(|member| freed.contains_key(&member.endpoint.slot.0)) {
            // Before its slot is free: who applies an event looks at this, and must not write for the next owner.
            member.gone.store(true, Ordering::Release);
            slots.free(member.endpoint.slot);
        }
        members.sort_by_key(|member| member.endpoint.slot);
        self.members.store(Arc::new(members));
        self.changed.send_replace(());
        freed.into_values().collect()
    }
}

fn endpoint(desired: EndpointSpec, slot: Slot) -> Endpoint {
    Endpoint {
        slot,
        namespace: desired.namespace,
        name: desired.name,
        address: desired.address,
        host_port: desired.address.to_string(),
        labels: desired.labels,
    }
}

#[cfg(test)]
mod tests;
