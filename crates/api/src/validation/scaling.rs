//! Rules for autoscaling.

use super::Report;
use crate::v1alpha2::{KedaSettings, LLMInferenceServiceSpec, ScalingSpec, WorkloadSpec, WvaSpec};

/// Checks the scaling of the workload at `path`.
pub(super) fn check(path: &str, workload: &WorkloadSpec, report: &mut Report) {
    let Some(scaling) = &workload.scaling else { return };
    let field = format!("{path}.scaling");
    if workload.replicas.is_some() {
        report.invalid(&field, scaling, "replicas and scaling are mutually exclusive");
    }
    if let Some(min) = scaling.min_replicas.filter(|min| *min > scaling.max_replicas) {
        let max = scaling.max_replicas;
        let text = format!("minReplicas ({min}) cannot exceed maxReplicas ({max})");
        report.invalid(format!("{field}.minReplicas"), &min, &text);
    }
    match (&scaling.wva, &scaling.keda) {
        (Some(_), Some(_)) => {
            report.invalid(
                &field,
                scaling,
                "wva and keda are mutually exclusive; choose one scaling mechanism",
            );
        }
        (None, None) => {
            report.required(&field, "either wva or keda must be specified when scaling is configured");
        }
        (None, Some(keda)) => {
            let keda_field = format!("{field}.keda");
            if keda.triggers.as_ref().is_none_or(Vec::is_empty) {
                report.required(
                    format!("{keda_field}.triggers"),
                    "at least one trigger is required when using direct KEDA scaling",
                );
            }
            check_keda(&keda_field, &field, scaling, &keda.settings, report);
        }
        (Some(wva), None) => check_wva(&field, scaling, wva, report),
    }
}

fn check_wva(field: &str, scaling: &ScalingSpec, wva: &WvaSpec, report: &mut Report) {
    let wva_field = format!("{field}.wva");
    match (&wva.hpa, &wva.keda) {
        (Some(_), Some(_)) => report.invalid(
            &wva_field,
            wva,
            "hpa and keda are mutually exclusive; choose one actuator backend",
        ),
        (None, None) => {
            report.required(&wva_field, "either hpa or keda must be specified as the actuator backend");
        }
        _ => {}
    }
    if !wva.variant_cost.is_empty() && !is_number(&wva.variant_cost) {
        report.invalid(
            format!("{wva_field}.variantCost"),
            &wva.variant_cost,
            "must be a non-negative numeric string, for example \"10\" or \"10.0\"",
        );
    }
    let Some(keda) = &wva.keda else { return };
    let keda_field = format!("{wva_field}.keda");
    if let Some(advanced) = &keda.advanced {
        let m = &advanced.scaling_modifiers;
        if [&m.formula, &m.target, &m.activation_target, &m.metric_type].iter().any(|text| !text.is_empty()) {
            report.forbidden(
                format!("{keda_field}.advanced.scalingModifiers"),
                "scalingModifiers must not be set; WVA controls the scaling metric formula and logic",
            );
        }
    }
    check_keda(&keda_field, field, scaling, keda, report);
}

/// Checks the rules that apply to both ways of using KEDA.
fn check_keda(
    field: &str,
    scaling_field: &str,
    scaling: &ScalingSpec,
    keda: &KedaSettings,
    report: &mut Report,
) {
    let hpa = keda.advanced.as_ref().and_then(|a| a.horizontal_pod_autoscaler_config.as_ref());
    if hpa.is_some_and(|hpa| !hpa.name.is_empty()) {
        report.forbidden(
            format!("{field}.advanced.horizontalPodAutoscalerConfig.name"),
            "horizontalPodAutoscalerConfig.name must not be set; the controller manages the HPA name",
        );
    }
    let Some(idle) = keda.idle_replica_count else { return };
    match scaling.min_replicas {
        None => report.required(
            format!("{scaling_field}.minReplicas"),
            "minReplicas is required when idleReplicaCount is set",
        ),
        Some(min) if idle >= min => {
            report.invalid(
                format!("{field}.idleReplicaCount"),
                &idle,
                &format!("idleReplicaCount ({idle}) must be less than minReplicas ({min})"),
            );
        }
        Some(_) => {}
    }
}

/// Checks that decode and prefill use the same kind of autoscaler.
pub(super) fn check_consistency(spec: &LLMInferenceServiceSpec, report: &mut Report) {
    let prefill = spec.prefill.as_ref().and_then(|p| p.scaling.as_ref());
    let (Some(decode), Some(prefill)) = (&spec.workload.scaling, prefill) else { return };
    let mode = |scaling: &ScalingSpec| if scaling.keda.is_some() { "direct keda" } else { "wva" };
    if mode(decode) != mode(prefill) {
        report.invalid(
            "spec.prefill.scaling",
            prefill,
            &format!(
                "decode and prefill must use the same scaling mode; decode uses {} but prefill uses {}",
                mode(decode),
                mode(prefill)
            ),
        );
        return;
    }
    let (Some(decode), Some(prefill)) = (&decode.wva, &prefill.wva) else { return };
    let actuator = |wva: &WvaSpec| if wva.hpa.is_some() { "hpa" } else { "keda" };
    if actuator(decode) != actuator(prefill) {
        report.invalid(
            "spec.prefill.scaling.wva",
            prefill,
            &format!(
                "decode and prefill must use the same actuator backend; decode uses {} but prefill uses {} — mixing \
                 backends requires two separate metric pipelines and leads to independent, unsynchronised scaling \
                 decisions",
                actuator(decode),
                actuator(prefill)
            ),
        );
    }
}

/// Whether a text consists of ASCII digits, optionally with a fraction.
fn is_number(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(text),
    }
}
