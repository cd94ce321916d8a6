//! Reports whether any prefill pod can exchange KV cache with any decode pod, and otherwise what the service waits for.

use longboat_api::{
    conditions::{Conditions, types::KV_PAIRED},
    reasons::condition as reason,
};

use super::{context::StatusContext, rollout};
use crate::{
    context::Context,
    workload::{Half, revision},
};

/// Removes the condition if pairing is off now.
pub(super) fn prepare(context: &Context, conditions: &mut Conditions) {
    if context.stopped() || !revision::is_wanted(context) {
        conditions.clear(KV_PAIRED);
    }
}

/// Reports pairing, if pods of different revisions are kept apart. `Ready` does not depend on it.
pub(super) fn report(reconciled: &StatusContext, conditions: &mut Conditions) {
    let StatusContext { context, applied } = reconciled;
    if !revision::is_wanted(context) {
        return;
    }
    let missing: Vec<String> =
        Half::all(context.spec).filter_map(|half| rollout::of_half(context, applied, &half)?.0).collect();
    let revision = revision::of(context);
    if missing.is_empty() {
        let message = format!("prefill and decode pods are of revision {revision}");
        conditions.mark_true_with_reason(KV_PAIRED, reason::ONE_REVISION, &message);
        return;
    }
    let message = format!(
        "waiting for a roll-out to revision {revision}: {}; until then a prompt is computed by a prefill pod of the decode pod's \
         revision, or by the decode pod itself",
        missing.join("; ")
    );
    conditions.mark_false(KV_PAIRED, reason::WAITING_FOR_ROLLOUT, &message);
}
