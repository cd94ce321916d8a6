//! Roll-ups: conditions that follow the first of others that is false.

use super::{Condition, Conditions, table, types};

/// What `Ready` of a service depends on.
pub const SERVICE: &[&str] = &[types::PRESETS_COMBINED, types::WORKLOADS_READY, types::ROUTER_READY];

/// What `Ready` of a service depends on where it waits for the proof of serving.
pub const GATED: &[&str] =
    &[types::PRESETS_COMBINED, types::WORKLOADS_READY, types::ROUTER_READY, types::SERVING_PROVEN];

/// The same, of a service whose prefill is apart.
pub const GATED_DISAGGREGATED: &[&str] = &[
    types::PRESETS_COMBINED,
    types::WORKLOADS_READY,
    types::ROUTER_READY,
    types::SERVING_PROVEN,
    types::KV_TRANSFER_OBSERVED,
];

/// A condition that is false when the first false one of its parts is, and true otherwise. Parts that are absent or unknown do not
/// count. Which conditions are its parts, the [table](super::ALL) says.
#[derive(Clone, Copy, Debug)]
pub struct Rollup {
    /// Type of the condition.
    pub type_: &'static str,
}

/// `WorkloadsReady`.
pub const WORKLOADS: Rollup = Rollup { type_: types::WORKLOADS_READY };

/// `RouterReady`.
pub const ROUTER: Rollup = Rollup { type_: types::ROUTER_READY };

impl Rollup {
    /// Sets the condition from its parts. Reason and message are copied as they are: the reference uses the message
    /// as a format string, which mangles `%` (not copied).
    pub fn apply(&self, conditions: &mut Conditions<'_>) {
        let mut parts = table::parts(self).filter_map(|part| conditions.get(part));
        let first = parts.find(|condition| condition.is_false());
        match first.map(|Condition { reason, message, .. }| (reason.clone(), message.clone())) {
            Some((reason, message)) => conditions.mark_false(self.type_, &reason, &message),
            None => conditions.mark_true(self.type_),
        }
    }
}
