//! KV caches that engines pull from each other, block by block, with vLLM's offloading connector.

use serde::Serialize;
use uuid::Uuid;

use crate::target::Target;

/// The field that names an engine with blocks of the prompt.
pub(crate) const SOURCE: &str = "remote_kv_source";

/// The ports on which engines serve blocks to others. The ranks have consecutive ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    /// The port of rank 0.
    pub(crate) base: u16,
    /// The request port of a pod's rank 0.
    pub(crate) first_listener: u16,
    /// The number of ranks of a pod.
    pub(crate) ranks: u16,
}

/// An engine that has the cache, and the name under which it keeps the cache.
#[derive(Debug, Serialize)]
pub(crate) struct Peer<'a> {
    pub(crate) kv_request_id: String,
    pub(crate) remote_host: &'a str,
    pub(crate) remote_port: u32,
}

// === impl Ports ===

impl Ports {
    /// Returns the peer for fetching a named cache from a target.
    pub(crate) fn peer(self, target: &Target, kv_request_id: Uuid) -> Peer<'_> {
        Peer {
            kv_request_id: kv_request_id.to_string(),
            remote_host: target.host(),
            remote_port: self.of(target),
        }
    }

    /// Returns the peer for pulling blocks from a source. Returns `None` if the source is the pulling engine itself.
    pub(crate) fn pull<'a>(self, source: Option<&'a Target>, puller: &Target) -> Option<Peer<'a>> {
        let source = source.filter(|source| *source != puller)?;
        Some(self.peer(source, Uuid::new_v4()))
    }

    /// Returns the block port of the rank with this target's request port.
    fn of(self, target: &Target) -> u32 {
        let rank = target
            .authority()
            .port_u16()
            .and_then(|port| port.checked_sub(self.first_listener))
            .filter(|rank| *rank < self.ranks)
            .unwrap_or_default();
        u32::from(self.base) + u32::from(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_a_port_and_other_targets_have_that_of_the_first() {
        let ports = Ports { base: 7777, first_listener: 8000, ranks: 2 };
        for (target, expected) in [("a:8000", 7777), ("a:8001", 7778), ("a:8002", 7777), ("a:80", 7777)] {
            assert_eq!(ports.of(&Target::parse(target).unwrap()), expected, "{target}");
        }
    }

    #[test]
    fn an_engine_does_not_pull_from_itself() {
        let ports = Ports { base: 7777, first_listener: 8000, ranks: 1 };
        let [here, there] = ["a:8000", "b:8000"].map(|target| Target::parse(target).unwrap());
        assert!(ports.pull(Some(&here), &here).is_none());
        assert!(ports.pull(None, &here).is_none());
        assert_eq!(ports.pull(Some(&there), &here).unwrap().remote_host, "b");
    }
}
