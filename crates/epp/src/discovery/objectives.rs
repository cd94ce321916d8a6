//! Priorities from the pool's `InferenceObjective` objects.

use std::sync::Arc;

use kube::{Client, api::DynamicObject};
use tokio_util::sync::CancellationToken;

use super::both_groups::{self, Scope};
use crate::core::Core;

/// Follows the objectives of a pool until shutdown.
pub(crate) async fn follow(client: Client, scope: Scope, core: Arc<Core>, shutdown: CancellationToken) {
    let changed = |priorities| core.admission.set_objectives(priorities);
    both_groups::follow(client, scope, "InferenceObjective", priority, changed, shutdown).await;
}

fn priority(object: &DynamicObject) -> Option<i32> {
    let priority = object.data.pointer("/spec/priority").and_then(serde_json::Value::as_i64).unwrap_or(0);
    i32::try_from(priority).ok()
}
