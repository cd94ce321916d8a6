//! Connector `sglang`: both engines receive the same request with a meeting place, and find each other there.

use rand::Rng as _;

use super::plan::{Part, Plan, SplitRequest};
use crate::target::Target;

/// Room numbers, which SGLang reads as signed 64-bit integers. They are random, so that no two requests use the same room.
const ROOMS: std::ops::Range<i64> = 1 << 60..i64::MAX;

/// The connector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sglang {
    /// The port on which prefillers wait for decoders.
    pub(crate) bootstrap_port: u16,
}

// === impl Sglang ===

impl Sglang {
    pub(crate) fn plan(self, ask: SplitRequest<'_>) -> Plan<'_> {
        let part = self.part(ask, rand::rng().random_range(ROOMS));
        Plan::AtOnce { prefill: part.clone(), decode: part, failed: None }
    }

    fn part(self, ask: SplitRequest<'_>, room: i64) -> Part {
        let mut body = ask.request.clone();
        body.set_value("bootstrap_host", &Target::host(ask.prefiller));
        body.set_value("bootstrap_port", &self.bootstrap_port);
        body.set_value("bootstrap_room", &room);
        Part::from(&body)
    }
}
