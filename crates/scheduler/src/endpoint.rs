//! What is known about an endpoint: who it is, and what was scraped from it.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

/// A small number that stands for an endpoint while it exists; given out by [`Slots`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// Gives each endpoint a number, the lowest that is free, so that sets of endpoints are a few words of bits.
#[derive(Debug, Default)]
pub struct Slots {
    taken: Vec<bool>,
}

impl Slots {
    /// The lowest free slot. [`State::forget`](crate::State::forget) what its last owner left before using it.
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
    /// Where it serves.
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

/// What an endpoint's model server last said about itself.
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
    /// Loaded and in use.
    pub active: Vec<String>,
    /// Waiting for room.
    pub waiting: Vec<String>,
    /// How many can be loaded at once.
    pub max: u32,
}

/// An endpoint at the moment of a pick.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Who it is.
    pub endpoint: Arc<Endpoint>,
    /// What was scraped last.
    pub metrics: Arc<Metrics>,
    /// Whether that is recent. Endpoints that were never scraped, or not lately, rank last: no metrics look like no
    /// load, and would attract every request.
    pub fresh: bool,
}
