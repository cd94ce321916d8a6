//! The conditions of a proof.

use longboat_api::{
    annotations::SERVING_PROOF_RECORD,
    conditions::{
        Condition, Conditions, GATED, GATED_DISAGGREGATED, SERVICE,
        types::{KV_TRANSFER_OBSERVED, SERVING_PROVEN},
    },
    proof::ProofMode,
    reasons::condition as reason,
    v1alpha2::LLMInferenceServiceStatus,
};

use super::{
    mode,
    probe::Id,
    record::Record,
    subject::ProofSubject,
    verdict::{Verdict, set},
};
use crate::{context::Context, status::context::StatusContext};

/// The outcome of a proof request.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What the request was about.
    pub id: Id,
    /// When the response came, in seconds since 1970.
    pub at: i64,
    /// Whether a token came back.
    pub serving: Verdict,
    /// Whether KV cache was transferred; `None` if prefill and decode are not separate.
    pub transfer: Option<Verdict>,
}

/// The conditions that a proof sets.
const CONDITIONS: [&str; 2] = [SERVING_PROVEN, KV_TRANSFER_OBSERVED];

/// The mode of a running service. An unknown word counts as unset, because admission refuses it.
pub(super) fn mode_of(context: &Context) -> ProofMode {
    if context.stopped() {
        return ProofMode::Off;
    }
    mode(context.service, &context.snapshot.platform).unwrap_or_default()
}

/// The conditions on which `Ready` depends.
pub(crate) fn dependents(context: Option<&Context>) -> &'static [&'static str] {
    match context {
        Some(context) if mode_of(context) == ProofMode::Gate && context.spec.prefill.is_some() => {
            GATED_DISAGGREGATED
        }
        Some(context) if mode_of(context) == ProofMode::Gate => GATED,
        _ => SERVICE,
    }
}

/// Removes the conditions of an earlier setting before the other conditions are set, because `Ready` must not depend on them.
pub(crate) fn prepare(
    context: &Context,
    status: &mut LLMInferenceServiceStatus,
    conditions: &mut Conditions,
) {
    if mode_of(context) == ProofMode::Off {
        status.annotations.remove(SERVING_PROOF_RECORD);
        // A setting that cannot be read counts as off, and `report` says so in this condition.
        let is_wrong = mode(context.service, &context.snapshot.platform).is_err();
        let reported = (is_wrong && !context.stopped()).then_some(SERVING_PROVEN);
        for type_ in CONDITIONS.into_iter().filter(|type_| Some(*type_) != reported) {
            conditions.clear(type_);
        }
        return;
    }
    if context.spec.prefill.is_none() {
        conditions.clear(KV_TRANSFER_OBSERVED);
    }
    // Sets the conditions again: each stores whether `Ready` depends on it, and the setting may have changed.
    for type_ in CONDITIONS {
        if let Some(Condition { status, reason, message, .. }) = conditions.get(type_).cloned() {
            set(type_, status, &reason, &message, conditions);
        }
    }
}

/// Sets the conditions from the outcome of a new request, if there is one. Otherwise the earlier conditions stay as long as
/// the proof still applies to the service.
pub(crate) fn report(
    reconciled: &StatusContext,
    outcome: Option<&Outcome>,
    status: &mut LLMInferenceServiceStatus,
    conditions: &mut Conditions,
) {
    let context = &reconciled.context;
    if let Err(unknown) = mode(context.service, &context.snapshot.platform) {
        let message = format!("annotation {}: {unknown}", longboat_api::annotations::SERVING_PROOF);
        conditions.mark_false(SERVING_PROVEN, reason::PROOF_SETTING_INVALID, &message);
        return;
    }
    if mode_of(context) == ProofMode::Off {
        return;
    }
    let is_true = |type_: &str| conditions.get(type_).is_some_and(Condition::is_true);
    let current = ProofSubject::new(reconciled, status, is_true);
    if let Some(outcome) = outcome.filter(|outcome| outcome.id.subject == current.subject) {
        let attempt = outcome.id.attempt;
        Record { id: outcome.id.clone(), at: outcome.at }.write(&mut status.annotations);
        outcome.serving.with_attempt(attempt).set(SERVING_PROVEN, conditions);
        if let Some(transfer) = &outcome.transfer {
            transfer.with_attempt(attempt).set(KV_TRANSFER_OBSERVED, conditions);
        }
        return;
    }
    let record = Record::read(&status.annotations).filter(|record| record.id.subject == current.subject);
    let is_judged = |type_: &str| conditions.get(type_).is_some_and(|found| !found.reason.is_empty());
    let disaggregated = context.spec.prefill.is_some();
    if record.is_some() && is_judged(SERVING_PROVEN) && (!disaggregated || is_judged(KV_TRANSFER_OBSERVED)) {
        return;
    }
    // A record without its conditions proves nothing.
    status.annotations.remove(SERVING_PROOF_RECORD);
    let sent = || Verdict::unknown(reason::PROOF_PENDING, "sent a request for one token".to_owned());
    let pending = current.waiting.unwrap_or_else(sent);
    pending.set(SERVING_PROVEN, conditions);
    if disaggregated {
        pending.set(KV_TRANSFER_OBSERVED, conditions);
    }
}

/// Whether the proof is complete and needs no further attempt.
pub(super) fn is_complete(status: &LLMInferenceServiceStatus) -> bool {
    let found = |type_: &str| status.conditions.iter().find(|condition| condition.type_ == type_);
    found(SERVING_PROVEN).is_some_and(Condition::is_true)
        && found(KV_TRANSFER_OBSERVED)
            .is_none_or(|transfer| transfer.is_true() || transfer.reason == reason::NO_EVIDENCE)
}
