//! Keeps the endpoints that can exchange KV cache between prefill and decode: those of the same revision.
//!
//! During a rollout of prefill and decode, pods of two revisions exist. A KV cache of another model, layout or connector is
//! useless to its reader, or makes it fail.

use longboat_api::labels;

use crate::{context::Context, endpoint::Candidate};

/// Keeps the candidates that can exchange KV cache with `peer`. Those without the label match all others.
pub(crate) fn keep(context: &Context<'_>, peer: Candidate, candidates: &mut Vec<Candidate>) {
    let revision = |candidate: Candidate| context.endpoint(candidate).labels.get(labels::KV_REVISION);
    if let Some(wanted) = revision(peer) {
        candidates.retain(|&candidate| revision(candidate).is_none_or(|found| found == wanted));
    }
}
