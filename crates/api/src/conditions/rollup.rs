//! Roll-ups: conditions that follow the first false one of other conditions.

use super::{Condition, Conditions, table, types};

/// The dependents of `Ready` of a service.
pub const SERVICE: &[&str] = &[types::PRESETS_COMBINED, types::WORKLOADS_READY, types::ROUTER_READY];

/// The dependents of `Ready` of a service that waits for the proof of serving.
pub const GATED: &[&str] =
    &[types::PRESETS_COMBINED, types::WORKLOADS_READY, types::ROUTER_READY, types::SERVING_PROVEN];

/// Like [`GATED`], for a service with separate prefill.
pub const GATED_DISAGGREGATED: &[&str] = &[
    types::PRESETS_COMBINED,
    types::WORKLOADS_READY,
    types::ROUTER_READY,
    types::SERVING_PROVEN,
    types::KV_TRANSFER_OBSERVED,
];

/// A condition that follows its parts: it is false if one of them is false, with the reason of the first false one, and true
/// otherwise. Missing and unknown parts do not count. The [table](super::ALL) lists the parts.
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
    /// Sets the condition from its parts. Copies reason and message unchanged, whereas KServe uses the message as a format
    /// string, which garbles `%`.
    pub fn apply(&self, conditions: &mut Conditions<'_>) {
        let mut parts = table::parts(self.type_).filter_map(|part| conditions.get(part));
        let first = parts.find(|condition| condition.is_false());
        match first.map(|Condition { reason, message, .. }| (reason.clone(), message.clone())) {
            Some((reason, message)) => conditions.mark_false(self.type_, &reason, &message),
            None => conditions.mark_true(self.type_),
        }
    }
}
