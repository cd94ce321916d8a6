//! Connector `sglang`: both engines receive the same request with a meeting place, and find each other there.

use rand::Rng as _;

use super::plan::{Part, Plan, SplitRequest};
use crate::target::Target;

/// Room numbers, which SGLang reads as signed 64-bit integers. They are random, so that no two requests use the same room.
const ROOMS: std::ops::Range<i64> = 1 << 60..i64::MAX;

/// Divides a request. Prefillers wait for decoders on this port.
pub(crate) fn plan(ask: SplitRequest<'_>, bootstrap_port: u16) -> Plan<'_> {
    let part = part(ask, bootstrap_port, rand::rng().random_range(ROOMS));
    Plan::AtOnce { prefill: part.clone(), decode: part, failed: None }
}

fn part(ask: SplitRequest<'_>, bootstrap_port: u16, room: i64) -> Part {
    let mut body = ask.request.clone();
    body.set_value("bootstrap_host", &Target::host(ask.prefiller));
    body.set_value("bootstrap_port", &bootstrap_port);
    body.set_value("bootstrap_room", &room);
    Part::from(&body)
}
