//! The identity and the scraped metrics of an endpoint.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

/// A small number that identifies an endpoint while it exists. Assigned by [`Slots`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// Assigns to each endpoint the lowest free number, so that a set of endpoints needs only a few words of bits.
#[derive(Debug, Default)]
pub struct Slots {
    taken: Vec<bool>,
}

impl Slots {
    /// Takes the lowest free slot. Before the slot is used, [`State::forget`](crate::State::forget) must remove the state of
    /// its last owner.
    pub fn take(&mut self) -> Slot {
        let index = self.taken.iter().position(|taken| !taken).unwrap_or(self.taken.len());
        if index == self.taken.len() {
            self.taken.push(true);
        } else {
            self.taken[index] = true;
        }
        Slot(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Frees a slot.
    pub fn free(&mut self, slot: Slot) {
        if let Some(taken) = self.taken.get_mut(slot.0 as usize) {
            *taken = false;
        }
    }
}

/// An endpoint: one port of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its number in this process.
    pub slot: Slot,
    /// The pod's namespace.
    pub namespace: String,
    /// `<pod>-rank-<index of the target port>`, or the name in a discovery file.
    pub name: String,
    /// The address on which it serves.
    pub address: SocketAddr,
    /// `address` as it is written into headers: `ip:port`, IPv6 in brackets.
    pub host_port: String,
    /// The pod's labels.
    pub labels: BTreeMap<String, String>,
}

impl Endpoint {
    /// `namespace/name`, as session tokens name it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The metrics that an endpoint's model server last reported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// Requests waiting in its queue.
    pub waiting: f64,
    /// Requests running.
    pub running: f64,
    /// Share of the KV cache in use, 0 to 1.
    pub kv_usage: f64,
    /// LoRA adapters, if it reports them.
    pub lora: Option<LoraAdapters>,
    /// Tokens per KV cache block; 0: not reported.
    pub block_size: u32,
    /// KV cache blocks; 0: not reported.
    pub num_blocks: u32,
    /// Attributes by name: numbers that the configuration takes from the page.
    pub custom: BTreeMap<String, f64>,
}

/// The LoRA adapters of a model server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoraAdapters {
    /// The adapters that are loaded and in use.
    pub active: Vec<String>,
    /// The adapters that wait to be loaded.
    pub waiting: Vec<String>,
    /// How many can be loaded at once.
    pub max: u32,
}

/// An endpoint at the moment of a pick.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// The metrics of the last scrape.
    pub metrics: Arc<Metrics>,
    /// Whether the metrics are recent. Endpoints without recent metrics rank last: missing metrics look like an idle
    /// endpoint, which would attract every request.
    pub fresh: bool,
}

/// A candidate's position in the list that the pick was given.
pub(crate) type Candidate = usize;
