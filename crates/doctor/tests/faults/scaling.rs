//! Autoscalers that do not scale.

use longboat_doctor::{Facts, Severity};
use serde_json::json;

use crate::world::{LLM, arc, condition, only, unready, with};

#[test]
fn autoscalers_that_fail_lead_to_metrics_or_keda() {
    let scaling = |facts: &mut Facts| unready(facts, "ScalingReady", "FailedGetResourceMetric", "no metrics");
    let found = with(|facts| {
        scaling(facts);
        let failed =
            condition("ScalingActive", "False", "FailedGetResourceMetric", "unable to get metrics for cpu");
        facts.snapshot.horizontal_pod_autoscalers.insert(arc(json!({
            "metadata": {"name": "llm-kserve-hpa", "namespace": "ns"},
            "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "llm-kserve"}},
            "status": {"desiredReplicas": 1, "conditions": [failed]},
        })));
    });
    only(&found, "AutoscalerFails", LLM, "unable to get metrics", "metrics server");
    let found = with(|facts| unready(facts, "ScalingReady", "ScalingCRDNotFound", "no ScaledObject API"));
    only(&found, "KedaMissing", LLM, "no ScaledObject API", "install KEDA");
    let found = with(|facts| {
        scaling(facts);
        facts.snapshot.scaled_objects.insert(arc(json!({
            "metadata": {"name": "llm-kserve-keda", "namespace": "ns"},
            "spec": {"scaleTargetRef": {"name": "llm-kserve"}, "triggers": []},
        })));
    });
    only(&found, "KedaSilent", LLM, "its operator may not run", "keda-operator");
}

#[test]
fn a_trigger_that_only_a_cluster_evaluates_is_a_warning_on_this_machine() {
    let of = |local: bool, reason: &str, fix: &str| {
        let found = with(|facts| {
            facts.local = local;
            unready(facts, "ScalingReady", reason, "no cron here");
            let ready = condition("Ready", "False", reason, "no cron here");
            facts.snapshot.scaled_objects.insert(arc(json!({
                "metadata": {"name": "llm-kserve-keda", "namespace": "ns"},
                "spec": {"scaleTargetRef": {"name": "llm-kserve"}, "triggers": []},
                "status": {"conditions": [ready]},
            })));
        });
        only(&found, "AutoscalerFails", LLM, "no cron here", fix).severity
    };
    assert_eq!(of(true, "TriggerError", "on a cluster"), Severity::Warning);
    assert_eq!(of(false, "TriggerError", "kubectl describe scaledobject"), Severity::Broken);
    let annotation = of(true, "MetricAnnotationError", "correct the annotation");
    assert_eq!(annotation, Severity::Broken, "no cluster evaluates it either");
}

#[test]
fn a_service_that_its_triggers_never_wake_behind_our_gateway_is_warned_about() {
    let of = |controller: &str| {
        with(|facts| {
            facts.snapshot.gateway_classes.insert(arc(json!({
                "metadata": {"name": "envoy"}, "spec": {"controllerName": controller},
                "status": {"conditions": [condition("Accepted", "True", "Accepted", "")]},
            })));
            let query = "sum(vllm:num_requests_running)";
            facts.snapshot.scaled_objects.insert(arc(json!({
                "metadata": {"name": "llm-kserve-keda", "namespace": "ns"},
                "spec": {"scaleTargetRef": {"name": "llm-kserve"}, "minReplicaCount": 1, "idleReplicaCount": 0,
                         "triggers": [{"type": "prometheus", "metadata": {"query": query}}]},
            })));
        })
    };
    let found = only(
        &of("longboat.dev/gateway"),
        "NeverWakes",
        LLM,
        "Gateway kserve/gw holds them",
        "llm-inference-pool",
    );
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(of("example.com/gateway"), []);
}
