//! Decides which request is due.

use std::time::Duration;

use longboat_api::{
    proof::ProofMode,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec, LLMInferenceServiceStatus},
};

use super::{
    ATTEMPTS,
    probe::{Id, Probe, make},
    record::Record,
    report,
    subject::ProofSubject,
};
use crate::{
    children::{Applied, Children},
    context::Context,
    problem::PlanError,
    snapshot::Snapshot,
    status::context::StatusContext,
};

/// Seconds before each further attempt. A gateway may start to use a route a moment after it has accepted it.
const BACKOFF: [i64; ATTEMPTS as usize - 1] = [2, 10, 30, 120];
/// Seconds between two requests about the same subject: an autoscaler may add pods one by one.
const SPACING: i64 = 10;

/// Returns the request that is due after a reconcile with this outcome. Returns `None` if the proof is off, if no request can
/// be sent yet, or if every request was sent.
///
/// # Errors
/// If the service was never stored.
pub fn next(
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    applied: &Children<Applied>,
    snapshot: &Snapshot,
    status: &LLMInferenceServiceStatus,
) -> Result<Option<Probe>, PlanError> {
    let context = Context::new(service, spec, snapshot)?;
    if report::mode_of(&context) == ProofMode::Off {
        return Ok(None);
    }
    let holds = |type_: &str| {
        status.conditions.iter().any(|condition| condition.type_ == type_ && condition.is_true())
    };
    let reconciled = StatusContext { context, applied };
    let current = ProofSubject::new(&reconciled, status, holds);
    if current.waiting.is_some() {
        return Ok(None);
    }
    let record = Record::read(&status.annotations);
    let now = snapshot.now.as_second();
    // Limits the delay if the clock was set back.
    let left = |seconds: i64, at: i64| (seconds - (now - at)).clamp(0, seconds);
    let (attempt, delay) = match record.filter(|record| record.id.subject == current.subject) {
        None => (1, 0),
        Some(record) if record.id.reconciled != current.reconciled => (1, left(SPACING, record.at)),
        Some(_) if report::is_complete(status) => return Ok(None),
        Some(record) if record.id.attempt >= ATTEMPTS => return Ok(None),
        Some(record) => {
            // Attempts count from one, and the first has no wait.
            let before = BACKOFF.get(usize::try_from(record.id.attempt.max(1) - 1).unwrap_or_default());
            (record.id.attempt + 1, left(before.copied().unwrap_or(SPACING), record.at))
        }
    };
    let id = Id { subject: current.subject, reconciled: current.reconciled, attempt };
    Ok(make(&reconciled, status, id, Duration::from_secs(delay.unsigned_abs())))
}
