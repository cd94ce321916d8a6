//! Keeps the endpoints that can exchange KV cache between prefill and decode: those of the same revision.
//!
//! During a rollout of prefill and decode, pods of two revisions exist. A KV cache of another model, layout or connector is
//! useless to its reader, or makes it fail.

use crate::{context::Context, endpoint::Candidate};

/// The label whose value must be equal on both sides. Pods without the label match all others.
pub const REVISION_LABEL: &str = "longboat.dev/kv-revision";

/// Keeps the candidates that can exchange KV cache with `peer`.
pub(crate) fn keep(context: &Context<'_>, peer: Candidate, candidates: &mut Vec<Candidate>) {
    let revision = |candidate: Candidate| context.endpoint(candidate).labels.get(REVISION_LABEL);
    if let Some(wanted) = revision(peer) {
        candidates.retain(|&candidate| revision(candidate).is_none_or(|found| found == wanted));
    }
}
