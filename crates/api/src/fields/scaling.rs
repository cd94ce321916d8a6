//! Automatic scaling: rows below `spec` and `spec.prefill`, and below each place that describes a ScaledObject.

use super::row::{Row, Site};
use crate::v1alpha2::{KedaScalingModifiers, KedaSettings};

pub(super) const ROWS: &[Row] = &[
    Row::with_effect("scaling.minReplicas", "minimum of the HorizontalPodAutoscaler or ScaledObject"),
    Row::with_effect("scaling.maxReplicas", "maximum of the HorizontalPodAutoscaler or ScaledObject"),
    Row::with_effect(
        "scaling.wva.variantCost",
        "annotation llm-d.ai/variant-cost, which the autoscaler reads",
    ),
    Row::with_effect("scaling.wva.hpa.behavior", "behavior of the HorizontalPodAutoscaler"),
    Row::with_effect("scaling.keda.triggers[].type", "trigger of the ScaledObject"),
    Row::with_effect("scaling.keda.triggers[].name", "trigger of the ScaledObject"),
    Row::with_effect("scaling.keda.triggers[].useCachedMetrics", "trigger of the ScaledObject"),
    Row::with_effect("scaling.keda.triggers[].metadata", "trigger of the ScaledObject"),
    Row::with_effect("scaling.keda.triggers[].metricType", "trigger of the ScaledObject"),
    Row::with_effect("scaling.keda.triggers[].authenticationRef.name", "trigger of the ScaledObject"),
    Row::with_effect("scaling.keda.triggers[].authenticationRef.kind", "trigger of the ScaledObject"),
];

/// Rows about a ScaledObject.
pub(super) const KEDA_ROWS: &[Row] = &[
    Row::with_effect("pollingInterval", "pollingInterval of the ScaledObject"),
    Row::with_effect("cooldownPeriod", "cooldownPeriod of the ScaledObject")
        .with_warning(|site| without_idle_count(site, "cooldownPeriod", |settings| settings.cooldown_period)),
    Row::with_effect("initialCooldownPeriod", "initialCooldownPeriod of the ScaledObject").with_warning(
        |site| without_idle_count(site, "initialCooldownPeriod", |settings| settings.initial_cooldown_period),
    ),
    Row::with_effect("idleReplicaCount", "idleReplicaCount of the ScaledObject").with_warning(|site| {
        let count = site.keda?.1.idle_replica_count.filter(|count| *count > 0)?;
        site.note_keda("idleReplicaCount", &format!("is {count}: KEDA scales to 0 or not at all while idle"))
    }),
    Row::with_effect("fallback.failureThreshold", "fallback of the ScaledObject"),
    Row::with_effect("fallback.replicas", "fallback of the ScaledObject"),
    Row::with_effect("fallback.behavior", "fallback of the ScaledObject"),
    Row::with_effect("advanced.restoreToOriginalReplicaCount", "advanced settings of the ScaledObject"),
    Row::with_effect(
        "advanced.horizontalPodAutoscalerConfig.behavior",
        "behavior of KEDA's HorizontalPodAutoscaler",
    ),
    Row::refused(
        "advanced.horizontalPodAutoscalerConfig.name",
        "CEL-13, V25: the controller chooses the name",
    ),
    Row::with_effect(
        "advanced.scalingModifiers.formula",
        "advanced settings of the ScaledObject; refused with wva (CEL-10, V26)",
    ),
    Row::with_effect("advanced.scalingModifiers.target", "as the formula")
        .with_warning(|site| modifier(site, "advanced.scalingModifiers.target", |all| &all.target)),
    Row::with_effect("advanced.scalingModifiers.activationTarget", "as the formula").with_warning(|site| {
        modifier(site, "advanced.scalingModifiers.activationTarget", |all| &all.activation_target)
    }),
    Row::with_effect("advanced.scalingModifiers.metricType", "as the formula")
        .with_warning(|site| modifier(site, "advanced.scalingModifiers.metricType", |all| &all.metric_type)),
];

/// A period that is set although the workload is never scaled to its idle count.
fn without_idle_count(
    site: &Site<'_>,
    path: &str,
    period: fn(&KedaSettings) -> Option<i32>,
) -> Option<String> {
    let (_, settings) = site.keda.filter(|(_, keda)| site.whole && keda.idle_replica_count.is_none())?;
    period(settings)?;
    site.note_keda(
        path,
        "has no effect without idleReplicaCount: the workload never goes below minReplicas, which is at least 1",
    )
}

/// A modifier that is set although there is no formula for it.
fn modifier(site: &Site<'_>, path: &str, text: fn(&KedaScalingModifiers) -> &String) -> Option<String> {
    let modifiers = &site.keda?.1.advanced.as_ref()?.scaling_modifiers;
    (site.whole && modifiers.formula.is_empty() && !text(modifiers).is_empty()).then_some(())?;
    site.note_keda(path, "has no effect without advanced.scalingModifiers.formula")
}
