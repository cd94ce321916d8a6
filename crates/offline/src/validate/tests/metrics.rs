//! Metrics by which workloads scale.

use super::{Finding, report, service};

#[test]
fn an_annotation_that_gives_a_metric_no_number_is_a_warning() {
    let text = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: a\n  annotations:\n    longboat.dev/metric.good: '2'\n    longboat.dev/metric.queue: many\nspec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}\n";
    let found: Vec<String> = report(text).findings.iter().map(Finding::line).collect();
    assert_eq!(
        found,
        [
            "f.yaml:7:5: warning: metadata.annotations[longboat.dev/metric.queue]: annotation longboat.dev/metric.queue is \"many\", \
             which is no number: `longboat up` cannot scale by it"
        ]
    );
}

#[test]
fn a_trigger_by_cpu_or_memory_needs_requests_of_the_containers() {
    let with = |resource: &str, container: &str, resources: &str| {
        service(&format!(
            "  scaling:\n    maxReplicas: 3\n    keda:\n      triggers:\n      - type: {resource}\n        metricType: AverageValue\n        metadata: {{value: 1Gi{container}}}\n  \
             template:\n    containers:\n    - {{name: main, resources: {{{resources}}}}}\n    - {{name: logs, image: a, resources: {{limits: {{cpu: 1}}}}}}\n"
        ))
    };
    let finding_lines = |text: &str| report(text).findings.iter().map(Finding::line).collect::<Vec<_>>();
    let refused = |container: &str| {
        format!(
            "f.yaml:11:9: warning: spec.scaling.keda.triggers[0].type: is memory, and container {container} of Deployment one-kserve has no \
             memory request: KEDA refuses the trigger, so nothing scales the workload"
        )
    };
    assert_eq!(finding_lines(&with("memory", "", "")), [refused("main")]);
    assert_eq!(finding_lines(&with("memory", "", "requests: {memory: 1Gi}")), [refused("logs")]);
    assert_eq!(finding_lines(&with("memory", ", containerName: main", "requests: {memory: 1Gi}")), [""; 0]);
    assert_eq!(finding_lines(&with("memory", ", containerName: main", "limits: {memory: 1Gi}")), [""; 0]);
    assert_eq!(
        finding_lines(&with("memory", ", containerName: main", "requests: {memory: 0}")),
        [refused("main")]
    );
    let range = "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\nspec: {limits: []}\n";
    assert_eq!(finding_lines(&(with("memory", "", "") + range)), [""; 0]);
}
