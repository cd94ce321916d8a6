//! The status of a service that an annotation stops.

use longboat_api::{
    conditions::{
        ALL, Conditions, WhenStopped,
        types::{ROUTER_READY, WORKLOADS_READY},
    },
    reasons::condition::STOPPED,
    v1alpha2::LLMInferenceServiceStatus,
};

/// Reports that every part is stopped.
pub(super) fn report(status: &mut LLMInferenceServiceStatus, conditions: &mut Conditions) {
    for row in ALL {
        match row.when_stopped {
            WhenStopped::Stopped => conditions.mark_false(row.type_, STOPPED, "Service is stopped"),
            WhenStopped::Absent => conditions.clear(row.type_),
            WhenStopped::Unchanged => {}
        }
    }
    conditions.roll_up(WORKLOADS_READY);
    conditions.roll_up(ROUTER_READY);
    status.workloads = None;
    status.router = None;
    status.url = None;
    status.address = None;
    status.addresses.clear();
}
