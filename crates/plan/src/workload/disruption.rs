//! How many pods of a half may be evicted at a time, for instance while a node is drained.

use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::half::Half;
use crate::{context::Context, draft::Draft};

/// Adds a PodDisruptionBudget for a half with several replicas, if the platform asks for budgets. Groups of pods have none: a
/// budget counts pods, but the eviction of one pod restarts its whole group.
pub(super) fn plan(context: &Context, half: &Half, draft: &mut Draft) -> Result<(), String> {
    let has_several = half.spec.scaling.is_some() || half.spec.replicas.is_some_and(|replicas| replicas > 1);
    let name = half.deployment_name(context.name);
    let Some(spec) = draft.children.deployment(&name).and_then(|planned| planned.spec.as_ref()) else {
        return Ok(());
    };
    if !context.snapshot.platform.disruption_budgets || !has_several {
        return Ok(());
    }
    let budget = PodDisruptionBudget {
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(spec.selector.clone()),
            ..PodDisruptionBudgetSpec::default()
        }),
        metadata: context.child_metadata(name, half.deployment_labels(context.name)),
        status: None,
    };
    draft.add(context, budget)
}
