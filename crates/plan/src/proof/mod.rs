//! Whether a service serves, proven by a request that goes the whole way: gateway, route, picker, engine.
//!
//! Everything here is pure. [`next`] says which request is due, the controller sends it and gives what it saw to [`judge`], and
//! [`status`](crate::status()) turns the outcome into conditions. What a proof was about is recorded in the status, so that
//! neither a reconcile nor a restart repeats it.

mod answer;
mod counters;
mod fuzzed;
mod judge;
mod next;
mod probe;
mod record;
mod report;
mod wanted;

pub use answer::{Answer, Unreached};
pub use counters::Counters;
pub use fuzzed::probe_bytes;
pub use judge::{PodMetrics, Seen, is_conclusive, judge};
pub use next::next;
pub use probe::{Id, PodAddress, Probe, Role};
pub use report::{Outcome, Verdict};

pub(crate) use report::{dependents, prepare, report};

/// How often one state of the world is tried before only a change of it leads to another request.
pub const ATTEMPTS: u32 = 5;

use longboat_api::{
    proof::{ProofMode, UnknownMode},
    v1alpha2::LLMInferenceService,
};
use longboat_compose::Platform;

/// What a service's annotation asks for, or else the platform.
///
/// # Errors
/// When the annotation has a value that is not known.
pub fn mode(service: &LLMInferenceService, platform: &Platform) -> Result<ProofMode, UnknownMode> {
    let own = ProofMode::of_annotations(service.metadata.annotations.as_ref())?;
    Ok(own.unwrap_or(platform.serving_proof.mode))
}

#[cfg(test)]
mod tests;
