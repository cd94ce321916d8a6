//! HorizontalPodAutoscalers of autoscaling/v2 (stored) and of v1, which knows CPU utilisation only.

use serde_json::{Value, json};

use crate::update::put;

/// The annotations where v1 keeps the fields that it does not have.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

pub(super) fn from_v2(stored: &Value) -> Value {
    let mut hpa = stored.clone();
    hpa["apiVersion"] = Value::from("autoscaling/v1");
    let mut others = Vec::new();
    let mut utilisation = None;
    for metric in stored["spec"]["metrics"].as_array().into_iter().flatten() {
        let target = &metric["resource"]["target"];
        if metric["type"] == "Resource"
            && metric["resource"]["name"] == "cpu"
            && target["averageUtilization"].is_i64()
        {
            utilisation = Some(target["averageUtilization"].clone());
        } else {
            others.push(metric.clone());
        }
    }
    let behavior = stored["spec"]["behavior"].clone();
    if let Some(spec) = hpa.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.remove("metrics");
        spec.remove("behavior");
        if let Some(utilisation) = utilisation {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), utilisation);
        }
    }
    let mut annotate = |key: &str, value: String| hpa["metadata"]["annotations"][key] = Value::String(value);
    if !others.is_empty() {
        annotate(METRICS, Value::Array(others).to_string());
    }
    if !behavior.is_null() {
        annotate(BEHAVIOR, behavior.to_string());
    }
    let status = &stored["status"];
    let mut old = json!({});
    for optional in ["observedGeneration", "lastScaleTime"] {
        put(&mut old, optional, status.get(optional).cloned());
    }
    for required in ["currentReplicas", "desiredReplicas"] {
        old[required] = status.get(required).cloned().unwrap_or_else(|| Value::from(0));
    }
    hpa["status"] = old;
    hpa
}

pub(super) fn to_v2(hpa: &Value) -> Value {
    let mut stored = hpa.clone();
    stored["apiVersion"] = Value::from("autoscaling/v2");
    let mut metrics: Vec<Value> =
        kept(hpa, METRICS).and_then(|value| value.as_array().cloned()).unwrap_or_default();
    let utilisation = hpa["spec"]["targetCPUUtilizationPercentage"].clone();
    if !utilisation.is_null() {
        metrics.insert(
            0,
            json!({"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": utilisation}}}),
        );
    }
    let behavior = kept(hpa, BEHAVIOR);
    if let Some(spec) = stored.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.remove("targetCPUUtilizationPercentage");
        if !metrics.is_empty() {
            spec.insert("metrics".to_owned(), Value::Array(metrics));
        }
        if let Some(behavior) = behavior {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    if let Some(annotations) = stored.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(METRICS);
        annotations.remove(BEHAVIOR);
        if annotations.is_empty() {
            put(&mut stored["metadata"], "annotations", None);
        }
    }
    stored
}

fn kept(hpa: &Value, annotation: &str) -> Option<Value> {
    let text = hpa["metadata"]["annotations"][annotation].as_str()?;
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_v1_cannot_say_survives_a_round_trip() {
        let v2 = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleDown": {}}, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Pods", "pods": {}}]}});
        let mut v1 = from_v2(&v2);
        assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 50);
        if let Some(fields) = v1.as_object_mut() {
            fields.remove("status");
        }
        assert_eq!(to_v2(&v1), v2);
    }
}
