//! A service that its annotation stops.

use longboat_api::{
    conditions::{Conditions, ROUTER, WORKLOADS, types},
    reasons::condition::STOPPED,
    v1alpha2::LLMInferenceServiceStatus,
};

/// Every part says that it is stopped, also those the service does not have: whoever waits for one gets an answer.
pub(super) fn report(status: &mut LLMInferenceServiceStatus, conditions: &mut Conditions) {
    const STOPPED_PARTS: [&str; 9] = [
        types::MAIN_WORKLOAD_READY,
        types::PREFILL_WORKLOAD_READY,
        types::WORKER_WORKLOAD_READY,
        types::PREFILL_WORKER_WORKLOAD_READY,
        types::GATEWAYS_READY,
        types::HTTP_ROUTES_READY,
        types::INFERENCE_POOL_READY,
        types::SCHEDULER_WORKLOAD_READY,
        types::TOKENIZER_READY,
    ];
    const ABSENT: [&str; 4] =
        [types::SCALING_READY, types::PREFILL_SCALING_READY, types::GROUP_READY, types::GROUP_DEGRADED];
    for type_ in STOPPED_PARTS {
        conditions.mark_false(type_, STOPPED, "Service is stopped");
    }
    for type_ in ABSENT {
        conditions.clear(type_);
    }
    WORKLOADS.apply(conditions);
    ROUTER.apply(conditions);
    status.workloads = None;
    status.router = None;
    status.url = None;
    status.address = None;
    status.addresses.clear();
}
