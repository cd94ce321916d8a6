//! HorizontalPodAutoscalers, in the form of `autoscaling/v2` or of `v1`.

use serde_json::{Value, json};

use super::{Strategy, checks::within, names::NameRule, pod, quantity::Quantity};
use crate::Field;

/// HorizontalPodAutoscalers. Both versions show the same objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Autoscaler {
    /// `autoscaling/v1`, which has a single metric.
    V1,
    /// `autoscaling/v2`.
    V2,
}

impl Strategy for Autoscaler {
    fn refused_if_empty(&self, value: &Value) -> Option<(&'static str, &'static str)> {
        let rules = ["/spec/behavior/scaleUp", "/spec/behavior/scaleDown"];
        let is_empty = |rules: &&str| {
            let policies = value.pointer(rules).and_then(|rules| rules["policies"].as_array());
            policies.is_some_and(Vec::is_empty)
        };
        Some((rules.into_iter().find(is_empty)?, "policies"))
    }

    fn prepare_create(&self, value: &mut Value) {
        value["status"] = match self {
            Self::V1 => json!({"currentReplicas": 0, "desiredReplicas": 0}),
            Self::V2 => json!({"desiredReplicas": 0, "currentMetrics": null}),
        };
    }

    fn validate(&self, object: &Field<'_>, _live: Option<&Value>) {
        let spec = object.at("spec");
        let metrics = json!({"metrics": metrics(*self, &spec)});
        let metrics: Vec<Field<'_>> = spec.with(&metrics).items("metrics").collect();
        let to_zero = metrics.iter().any(|metric| matches!(metric.text("type"), "Object" | "External"));
        replicas(&spec, to_zero);
        target(&spec.at("scaleTargetRef"));
        metrics.iter().for_each(validate_metric);
        for direction in ["scaleUp", "scaleDown"] {
            rules(&spec.at("behavior").at(direction));
        }
    }
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
fn replicas(spec: &Field<'_>, to_zero: bool) {
    let (min, max) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    let (least, most) = (min.as_i64(), max.as_i64().unwrap_or(0));
    match least {
        Some(0) if !to_zero => spec.at("metrics").forbidden(
            "must specify at least one Object or External metric to support scaling to zero replicas",
        ),
        Some(..0) => min.invalid("must be greater than or equal to 0"),
        _ => {}
    }
    if most < 1 {
        max.invalid_as(most, "must be greater than 0");
    }
    if least.is_some_and(|least| least > most) {
        max.invalid_as(most, "must be greater than or equal to `minReplicas`");
    }
}

/// Validates the reference to the scaled object.
fn target(target: &Field<'_>) {
    let version = target.text_at("apiVersion");
    let text = version.as_text();
    if text.matches('/').count() > 1 {
        version.invalid(format!("unexpected GroupVersion string: {text}"));
    } else if !text.contains('/') && (text != "v1" || target.text("kind") != "ReplicationController") {
        version.invalid("apiVersion must specify API group");
    }
    for key in ["kind", "name"] {
        target.at(key).required_name(NameRule::PathSegment);
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

fn validate_metric(metric: &Field<'_>) {
    let kind = metric.text_at("type");
    kind.not_empty("must specify a metric source type");
    let expected = SOURCES.iter().find(|(name, _)| *name == kind.as_text());
    if expected.is_none() {
        let mut known = SOURCES.map(|(name, _)| name);
        known.sort_unstable();
        // kube-apiserver checks the type twice and reports it twice
        kind.unsupported(&known);
        kind.unsupported(&known);
    }
    let present: Vec<_> = SOURCES.iter().filter(|(_, field)| metric[*field].is_object()).collect();
    if let Some((kind, field)) = present.first() {
        source(kind, &metric.at(field));
    }
    if let Some((_, field)) = expected
        && !metric[*field].is_object()
    {
        metric.at(field).required("must populate information for the given metric source");
    }
    if present.len() > 1 {
        for (_, field) in present.into_iter().filter(|kind| expected.is_none_or(|expected| expected != *kind))
        {
            metric.at(field).forbidden("must populate the given metric source only");
        }
    }
}

/// Validates the source of a metric of this type.
fn source(kind: &str, source: &Field<'_>) {
    match kind {
        "Resource" | "ContainerResource" => {
            if kind == "ContainerResource" {
                let container = source.at("container");
                container.not_empty("must specify a container");
                container.optional_name(NameRule::Label);
                let name = source.at("name");
                if !name.as_text().is_empty() {
                    pod::container_resource(&name, name.as_text());
                }
            }
            source.at("name").not_empty("must specify a resource name");
        }
        _ => {
            if kind == "Object" {
                for key in ["describedObject.kind", "describedObject.name"] {
                    source.at(key).required_name(NameRule::PathSegment);
                }
            }
            let name = source.at("metric.name");
            name.not_empty("must specify a metric name");
            name.optional_name(NameRule::PathSegment);
        }
    }
    amount(kind, &source.at("target"));
}

/// Validates the target value of a metric.
fn amount(kind: &str, target: &Field<'_>) {
    let given = target.text_at("type");
    given.not_empty("must specify a metric target type");
    if !matches!(given.as_text(), "Utilization" | "Value" | "AverageValue") {
        given.invalid("must be either Utilization, Value, or AverageValue");
    }
    let [value, average, utilization] =
        ["value", "averageValue", "averageUtilization"].map(|key| target.at(key));
    for amount in [&value, &average] {
        let is_positive = |text: &str| Quantity::parse(text).is_some_and(|quantity| quantity.milli() > 0);
        if amount.as_str().is_some_and(|text| !is_positive(text)) {
            amount.invalid("must be positive");
        }
    }
    within(&utilization, 1.., "must be greater than 0");
    let [has_value, has_average, has_utilization] =
        [&value, &average, &utilization].map(|field| !field.is_null());
    match kind {
        "Resource" | "ContainerResource" => match (has_utilization, has_average) {
            (false, false) => {
                utilization.required("must set either a target raw value or a target utilization");
            }
            (true, true) => average.forbidden("may not set both a target raw value and a target utilization"),
            _ => {}
        },
        "Pods" if !has_average => average.required("must specify a positive target averageValue"),
        "Pods" => {}
        "External" => match (has_value, has_average) {
            (true, true) => {
                value.forbidden("may not set both a target value for metric and a per-pod target");
            }
            (false, false) => {
                average.required("must set either a target value for metric or a per-pod target");
            }
            _ => {}
        },
        _ if !has_value && !has_average => average.required("must set either a target value or averageValue"),
        _ => {}
    }
}

/// Validates the scaling rules for one direction.
fn rules(rules: &Field<'_>) {
    if !rules.is_object() {
        return;
    }
    let window = rules.at("stabilizationWindowSeconds");
    within(&window, 0.., "must be greater than or equal to zero");
    within(&window, ..=3600, "must be less than or equal to 3600");
    rules.at("selectPolicy").one_of(&["Disabled", "Max", "Min"]);
    if rules.list("policies").is_empty() {
        rules.at("policies").required("must specify at least one Policy");
    }
    for policy in rules.items("policies") {
        policy.at("type").one_of(&["Percent", "Pods"]);
        let value = policy["value"].as_i64().unwrap_or(0);
        if value <= 0 {
            policy.at("value").invalid_as(value, "must be greater than zero");
        }
        let seconds = policy["periodSeconds"].as_i64().unwrap_or(0);
        let detail = match seconds {
            ..=0 => "must be greater than zero",
            1..=1800 => continue,
            _ => "must be less than or equal to 1800",
        };
        policy.at("periodSeconds").invalid_as(seconds, detail);
    }
}
