//! Which prefill and decode endpoints can exchange KV cache: those of one revision.
//!
//! While prefill and decode are rolled out, pods of two revisions live at once. A cache of another model, layout or
//! connector is of no use to its reader, or breaks it.

use crate::context::{Candidate, Context};

/// The label that names what must be equal on both sides. Pods without it go with all others.
pub const REVISION_LABEL: &str = "longboat.dev/kv-revision";

/// Leaves the candidates that can exchange KV cache with this one.
pub(crate) fn keep(context: &Context<'_>, peer: Candidate, candidates: &mut Vec<Candidate>) {
    let revision = |candidate: Candidate| context.endpoint(candidate).labels.get(REVISION_LABEL);
    if let Some(wanted) = revision(peer) {
        candidates.retain(|&candidate| revision(candidate).is_none_or(|found| found == wanted));
    }
}
