//! HorizontalPodAutoscalers, in the form of `autoscaling/v2` or of `v1`.

use serde_json::{Value, json};

use super::{
    Strategy,
    checks::{items, text},
    names::{self, NameRule},
    quantity::Quantity,
};
use crate::Cause;

/// HorizontalPodAutoscalers. Both versions show the same objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Autoscaler {
    /// `autoscaling/v1`, which has a single metric.
    V1,
    /// `autoscaling/v2`.
    V2,
}

impl Strategy for Autoscaler {
    fn prepare_create(&self, value: &mut Value) {
        value["status"] = match self {
            Self::V1 => json!({"currentReplicas": 0, "desiredReplicas": 0}),
            Self::V2 => json!({"desiredReplicas": 0, "currentMetrics": null}),
        };
    }

    fn validate(&self, value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        validate(*self, value)
    }
}

fn validate(version: Autoscaler, value: &Value) -> Vec<Cause> {
    let spec = &value["spec"];
    let mut causes = Vec::new();
    let metrics = metrics(version, spec);
    let metrics = metrics.as_array().map(Vec::as_slice).unwrap_or_default();
    let to_zero = metrics.iter().any(|metric| matches!(text(metric, "type"), "Object" | "External"));
    replicas(spec, to_zero, &mut causes);
    target(&spec["scaleTargetRef"], "spec.scaleTargetRef", &mut causes);
    for (index, metric) in metrics.iter().enumerate() {
        validate_metric(metric, &format!("spec.metrics[{index}]"), &mut causes);
    }
    for direction in ["scaleUp", "scaleDown"] {
        rules(&spec["behavior"][direction], &format!("spec.behavior.{direction}"), &mut causes);
    }
    causes
}

/// Returns the metrics of the spec in the form of `v2`.
fn metrics(version: Autoscaler, spec: &Value) -> Value {
    match &spec["targetCPUUtilizationPercentage"] {
        Value::Null => spec["metrics"].clone(),
        percentage if version == Autoscaler::V1 => json!([{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percentage}}}]),
        _ => spec["metrics"].clone(),
    }
}

/// Checks the bounds, as an API server with the feature gate `HPAScaleToZero` does.
fn replicas(spec: &Value, to_zero: bool, causes: &mut Vec<Cause>) {
    let most = spec["maxReplicas"].as_i64().unwrap_or(0);
    let least = spec["minReplicas"].as_i64();
    if least == Some(0) {
        if !to_zero {
            causes.push(Cause::forbidden(
                "spec.metrics",
                "must specify at least one Object or External metric to support scaling to zero replicas",
            ));
        }
    } else if let Some(least) = least.filter(|least| *least < 0) {
        causes.push(Cause::invalid("spec.minReplicas", &json!(least), "must be greater than or equal to 0"));
    }
    if most < 1 {
        causes.push(Cause::invalid("spec.maxReplicas", &json!(most), "must be greater than 0"));
    }
    if least.is_some_and(|least| least > most) {
        causes.push(Cause::invalid(
            "spec.maxReplicas",
            &json!(most),
            "must be greater than or equal to `minReplicas`",
        ));
    }
}

/// Validates a reference to the scaled object, or to the object that a metric describes.
fn target(target: &Value, path: &str, causes: &mut Vec<Cause>) {
    let version = text(target, "apiVersion");
    if version.matches('/').count() > 1 {
        causes.push(Cause::invalid(
            format!("{path}.apiVersion"),
            &Value::from(version),
            format!("unexpected GroupVersion string: {version}"),
        ));
    } else if path == "spec.scaleTargetRef" && !version.contains('/') {
        let is_controller = version == "v1" && text(target, "kind") == "ReplicationController";
        if !is_controller {
            causes.push(Cause::invalid(
                format!("{path}.apiVersion"),
                &Value::from(version),
                "apiVersion must specify API group",
            ));
        }
    }
    for key in ["kind", "name"] {
        let own = format!("{path}.{key}");
        let given = text(target, key);
        if given.is_empty() {
            causes.push(Cause::required(own, ""));
            continue;
        }
        for problem in names::problems(NameRule::PathSegment, given) {
            causes.push(Cause::invalid(own.as_str(), &Value::from(given), problem));
        }
    }
}

/// The metric types and their fields, in the order in which kube-apiserver checks them.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

fn validate_metric(metric: &Value, path: &str, causes: &mut Vec<Cause>) {
    let kind = text(metric, "type");
    let own = format!("{path}.type");
    if kind.is_empty() {
        causes.push(Cause::required(own.as_str(), "must specify a metric source type"));
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == kind);
    if expected.is_none() {
        let mut known = SOURCES.map(|(name, _)| name);
        known.sort_unstable();
        // kube-apiserver checks the type twice and reports it twice
        let cause = Cause::unsupported(own, &Value::from(kind), &known);
        causes.extend([cause.clone(), cause]);
    }
    let present: Vec<_> = SOURCES.iter().filter(|(_, field)| metric[*field].is_object()).collect();
    if let Some((kind, field)) = present.first() {
        source(kind, &metric[*field], &format!("{path}.{field}"), causes);
    }
    if let Some((_, field)) = expected
        && !metric[*field].is_object()
    {
        let detail = "must populate information for the given metric source";
        causes.push(Cause::required(format!("{path}.{field}"), detail));
    }
    if present.len() > 1 {
        for (kind, field) in present {
            if expected.is_none_or(|(name, _)| name != kind) {
                let detail = "must populate the given metric source only";
                causes.push(Cause::forbidden(format!("{path}.{field}"), detail));
            }
        }
    }
}

/// Validates the source of a metric of this type.
fn source(kind: &str, source: &Value, path: &str, causes: &mut Vec<Cause>) {
    match kind {
        "Resource" | "ContainerResource" => {
            if kind == "ContainerResource" && text(source, "container").is_empty() {
                causes.push(Cause::required(format!("{path}.container"), "must specify a container"));
            }
            if text(source, "name").is_empty() {
                causes.push(Cause::required(format!("{path}.name"), "must specify a resource name"));
            }
        }
        _ => {
            if kind == "Object" {
                described(&source["describedObject"], &format!("{path}.describedObject"), causes);
            }
            if text(&source["metric"], "name").is_empty() {
                causes.push(Cause::required(format!("{path}.metric.name"), "must specify a metric name"));
            }
        }
    }
    amount(kind, &source["target"], &format!("{path}.target"), causes);
}

fn described(object: &Value, path: &str, causes: &mut Vec<Cause>) {
    for key in ["kind", "name"] {
        if text(object, key).is_empty() {
            causes.push(Cause::required(format!("{path}.{key}"), ""));
        }
    }
}

/// Validates the target value of a metric.
fn amount(kind: &str, target: &Value, path: &str, causes: &mut Vec<Cause>) {
    let given = text(target, "type");
    if given.is_empty() {
        causes.push(Cause::required(format!("{path}.type"), "must specify a metric target type"));
    }
    if !matches!(given, "Utilization" | "Value" | "AverageValue") {
        causes.push(Cause::invalid(
            format!("{path}.type"),
            &Value::from(given),
            "must be either Utilization, Value, or AverageValue",
        ));
    }
    for key in ["value", "averageValue"] {
        let is_positive = |text: &str| Quantity::parse(text).is_some_and(|quantity| quantity.milli() > 0);
        if let Some(value) = target[key].as_str().filter(|value| !is_positive(value)) {
            causes.push(Cause::invalid(format!("{path}.{key}"), &Value::from(value), "must be positive"));
        }
    }
    if target["averageUtilization"].as_i64().is_some_and(|percentage| percentage < 1) {
        causes.push(Cause::invalid(
            format!("{path}.averageUtilization"),
            &target["averageUtilization"],
            "must be greater than 0",
        ));
    }
    let has = |key: &str| !target[key].is_null();
    match kind {
        "Resource" | "ContainerResource" => {
            if !has("averageUtilization") && !has("averageValue") {
                causes.push(Cause::required(
                    format!("{path}.averageUtilization"),
                    "must set either a target raw value or a target utilization",
                ));
            } else if has("averageUtilization") && has("averageValue") {
                causes.push(Cause::forbidden(
                    format!("{path}.averageValue"),
                    "may not set both a target raw value and a target utilization",
                ));
            }
        }
        "Pods" => {
            if !has("averageValue") {
                causes.push(Cause::required(
                    format!("{path}.averageValue"),
                    "must specify a positive target averageValue",
                ));
            }
        }
        "External" => {
            if has("value") && has("averageValue") {
                causes.push(Cause::forbidden(
                    format!("{path}.value"),
                    "may not set both a target value for metric and a per-pod target",
                ));
            } else if !has("value") && !has("averageValue") {
                causes.push(Cause::required(
                    format!("{path}.averageValue"),
                    "must set either a target value for metric or a per-pod target",
                ));
            }
        }
        _ => {
            if !has("value") && !has("averageValue") {
                causes.push(Cause::required(
                    format!("{path}.averageValue"),
                    "must set either a target value or averageValue",
                ));
            }
        }
    }
}

/// Validates the scaling rules for one direction.
fn rules(rules: &Value, path: &str, causes: &mut Vec<Cause>) {
    if !rules.is_object() {
        return;
    }
    if let Some(seconds) = rules["stabilizationWindowSeconds"].as_i64() {
        let own = format!("{path}.stabilizationWindowSeconds");
        if seconds < 0 {
            causes.push(Cause::invalid(own, &json!(seconds), "must be greater than or equal to zero"));
        } else if seconds > 3600 {
            causes.push(Cause::invalid(own, &json!(seconds), "must be less than or equal to 3600"));
        }
    }
    super::checks::one_of(
        &rules["selectPolicy"],
        &format!("{path}.selectPolicy"),
        &["Disabled", "Max", "Min"],
        causes,
    );
    let policies = items(rules, "policies");
    if policies.is_empty() {
        causes.push(Cause::required(format!("{path}.policies"), "must specify at least one Policy"));
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = format!("{path}.policies[{index}]");
        super::checks::one_of(&policy["type"], &format!("{path}.type"), &["Percent", "Pods"], causes);
        let value = policy["value"].as_i64().unwrap_or(0);
        if value <= 0 {
            causes.push(Cause::invalid(format!("{path}.value"), &json!(value), "must be greater than zero"));
        }
        let seconds = policy["periodSeconds"].as_i64().unwrap_or(0);
        let own = format!("{path}.periodSeconds");
        if seconds <= 0 {
            causes.push(Cause::invalid(own, &json!(seconds), "must be greater than zero"));
        } else if seconds > 1800 {
            causes.push(Cause::invalid(own, &json!(seconds), "must be less than or equal to 1800"));
        }
    }
}
