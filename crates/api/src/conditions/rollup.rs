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

impl Conditions<'_> {
    /// Sets a condition from its parts, which the [table](super::ALL) lists: it is false if one of them is false, with the reason
    /// of the first false one, and true otherwise. Missing and unknown parts do not count. Copies reason and message unchanged,
    /// whereas KServe uses the message as a format string, which garbles `%`.
    pub fn roll_up(&mut self, type_: &str) {
        let mut parts = table::parts(type_).filter_map(|part| self.get(part));
        let first = parts.find(|condition| condition.is_false());
        let objection = first.map(|Condition { reason, message, .. }| (reason.clone(), message.clone()));
        self.mark(type_, objection);
    }
}
