//! `status.router.group`, and whether the members of a group belong together.

use longboat_api::{
    conditions::{Conditions, types},
    reasons::condition::MEMBER_DIVERGENCE,
    v1alpha2::LLMInferenceServiceStatus,
};

use super::context::StatusContext;
use crate::router::group;

/// Reports the group that the route was written for. Clears it if there is no group.
pub(super) fn report(
    reconciled: &StatusContext,
    status: &mut LLMInferenceServiceStatus,
    conditions: &mut Conditions,
) {
    let written = !reconciled.applied.http_routes.is_empty();
    let split = group::split(&reconciled.context).filter(|_| written);
    let Some(split) = split else {
        conditions.clear(types::GROUP_READY);
        conditions.clear(types::GROUP_DEGRADED);
        return;
    };
    conditions.mark_true(types::GROUP_READY);
    match split.divergence() {
        // For this condition, True is the bad state.
        Some(message) => conditions.mark_true_with_reason(types::GROUP_DEGRADED, MEMBER_DIVERGENCE, &message),
        None => conditions.clear(types::GROUP_DEGRADED),
    }
    if let Some(router) = &mut status.router {
        router.group = Some(split.status());
    }
}
