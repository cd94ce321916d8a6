//! Caches that engines pull from one another, block by block, with vLLM's offloading connector.

use serde::Serialize;
use uuid::Uuid;

use crate::target::Target;

/// Where the prefiller or the decoder is told about an engine that has blocks of the prompt.
pub(crate) const SOURCE: &str = "remote_kv_source";

/// The ports on which engines give blocks to others: one a rank, from a first one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    /// That of rank 0.
    pub(crate) base: u16,
    /// The port on which a pod takes requests for its rank 0.
    pub(crate) first_listener: u16,
    /// Ranks of a pod.
    pub(crate) ranks: u16,
}

/// An engine that has the cache, and the name under which it keeps it.
#[derive(Debug, Serialize)]
pub(crate) struct Peer<'a> {
    pub(crate) kv_request_id: String,
    pub(crate) remote_host: &'a str,
    pub(crate) remote_port: u32,
}

// === impl Ports ===

impl Ports {
    /// How to fetch from a target what it keeps under a name.
    pub(crate) fn peer(self, target: &Target, kv_request_id: Uuid) -> Peer<'_> {
        Peer {
            kv_request_id: kv_request_id.to_string(),
            remote_host: target.host(),
            remote_port: self.of(target),
        }
    }

    /// How to fetch blocks from a source, unless it is the engine itself that would fetch.
    pub(crate) fn pull<'a>(self, source: Option<&'a Target>, puller: &Target) -> Option<Peer<'a>> {
        let source = source.filter(|source| *source != puller)?;
        Some(self.peer(source, Uuid::new_v4()))
    }

    /// The port of the rank that takes requests on the target's port.
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
