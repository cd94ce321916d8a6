//! Proves that a service serves by a request that takes the whole path: gateway, route, picker, engine.
//!
//! Everything here is pure. [`next`] says which request is due, the controller sends it and gives what it observed to
//! [`judge`], and [`status`](crate::status()) turns the outcome into conditions. The status records what a proof was about,
//! so neither a reconcile nor a restart repeats it.

mod answer;
mod counters;
mod fuzzed;
mod judge;
mod model_list;
mod next;
mod probe;
mod record;
mod report;
mod subject;
mod verdict;

pub use answer::{Answer, MAX_RESPONSE_BYTES, ProbeError};
pub use counters::{Counters, MAX_METRICS_BYTES};
pub use fuzzed::probe_bytes;
pub use judge::{PodMetrics, ProbeObservation, is_conclusive, judge};
pub use model_list::max_model_len;
pub use next::next;
pub use probe::{Id, PodAddress, Probe, Role};
pub use report::Outcome;
pub use verdict::Verdict;

pub(crate) use report::{dependents, prepare, report};

/// The number of attempts for one state of the service. After these, only a change leads to another request.
pub const ATTEMPTS: u32 = 5;

use longboat_api::{
    proof::{ProofMode, UnknownMode},
    v1alpha2::LLMInferenceService,
};
use longboat_compose::Platform;

/// The mode that the service's annotation asks for, or else the platform's.
///
/// # Errors
/// If the value of the annotation is unknown.
pub fn mode(service: &LLMInferenceService, platform: &Platform) -> Result<ProofMode, UnknownMode> {
    let own = ProofMode::of_annotations(service.metadata.annotations.as_ref())?;
    Ok(own.unwrap_or(platform.serving_proof.mode))
}

#[cfg(test)]
mod tests;
