use std::collections::BTreeSet;

use longboat_types::{DefaultValue, type_def, type_names};
use serde_json::{Value, json};

use super::{fill_in, rules::RULES};

fn filled(type_name: &str, mut value: Value) -> Value {
    fill_in(type_name, &mut value);
    value
}

#[test]
fn the_rules_are_those_of_the_table() {
    let mut named = BTreeSet::new();
    for name in type_names() {
        for field in &type_def(name).unwrap().fields {
            if let Some(DefaultValue::Computed(rule)) = field.default {
                named.insert(rule);
            }
        }
    }
    assert_eq!(named, RULES.iter().map(|(name, _)| *name).collect());
}

#[test]
fn a_container_gets_defaults_and_loses_what_go_omits() {
    assert_eq!(
        filled(
            "core.v1.Container",
            json!({
                "name": "main", "image": "i:1", "args": [], "stdin": false, "imagePullPolicy": "",
                "ports": [{"containerPort": 80, "hostPort": 0}],
                "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}, "requests": {}},
                "env": [{"name": "a", "value": ""}],
                "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 0, "initialDelaySeconds": 0},
                "readinessProbe": {"grpc": {"port": 1}},
                "securityContext": {"runAsUser": 0, "runAsNonRoot": false},
            }),
        ),
        json!({
            "name": "main", "image": "i:1", "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
            "env": [{"name": "a"}],
            "livenessProbe": {
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3,
            },
            "readinessProbe": {
                "grpc": {"port": 1, "service": ""},
                "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3,
            },
            "securityContext": {"runAsUser": 0, "runAsNonRoot": false},
        })
    );
}

#[test]
fn the_pull_policy_follows_from_the_tag() {
    let digest = format!("sha256:{}", "a".repeat(64));
    for (image, expected) in [
        (format!("nginx:latest@{digest}"), "Always"),
        (format!("nginx@{digest}"), "IfNotPresent"),
        ("Reg.io/Foo".to_owned(), "IfNotPresent"),
        ("reg.io/foo".to_owned(), "Always"),
        ("reg.io/foo:v1".to_owned(), "IfNotPresent"),
    ] {
        let container = filled("core.v1.Container", json!({"name": "a", "image": image}));
        assert_eq!(container["imagePullPolicy"], expected, "{image}");
        let volume = filled("core.v1.Volume", json!({"name": "a", "image": {"reference": image}}));
        assert_eq!(volume, json!({"name": "a", "image": {"reference": image, "pullPolicy": expected}}));
    }
}

#[test]
fn ports_on_the_host_and_requests_are_filled_in_in_pods_only() {
    let spec = json!({
        "hostNetwork": true,
        "containers": [{
            "name": "a", "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
        }],
        "initContainers": [{"name": "b", "ports": [{"containerPort": 81}]}],
    });
    let pod = filled("core.v1.Pod", json!({"spec": spec}))["spec"].take();
    assert_eq!(pod["containers"][0]["ports"][0]["hostPort"], 80);
    assert_eq!(pod["initContainers"][0]["ports"][0]["hostPort"], 81);
    assert_eq!(pod["containers"][0]["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
    assert_eq!(pod["enableServiceLinks"], true);
    let template = filled("apps.v1.Deployment", json!({"spec": {"template": {"spec": spec}}}));
    let template = &template["spec"]["template"]["spec"];
    assert_eq!(template["containers"][0]["ports"][0], json!({"containerPort": 80, "protocol": "TCP"}));
    assert_eq!(template["containers"][0]["resources"]["requests"], json!({"cpu": "500m"}));
    assert_eq!(template.get("enableServiceLinks"), None);
}

#[test]
fn a_resource_field_has_a_divisor_everywhere() {
    let reference = json!({"resourceFieldRef": {"resource": "limits.cpu"}, "path": "a"});
    let expected = json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}, "path": "a"});
    for volume in [
        json!({"name": "v", "downwardAPI": {"items": [reference]}}),
        json!({"name": "v", "projected": {"sources": [{"downwardAPI": {"items": [reference]}}]}}),
    ] {
        let volume = filled("core.v1.Volume", volume);
        let items =
            volume.pointer("/downwardAPI/items").or(volume.pointer("/projected/sources/0/downwardAPI/items"));
        assert_eq!(items.unwrap()[0], expected);
    }
}

#[test]
fn the_spec_of_a_cron_job_gets_the_defaults_of_jobs_later() {
    let cron = filled("batch.v1.CronJob", json!({"spec": {"schedule": "@daily", "jobTemplate": {}}}));
    assert_eq!(cron["spec"]["jobTemplate"]["spec"].get("completions"), None);
    let job = filled("batch.v1.Job", json!({"spec": {"backoffLimitPerIndex": 1, "completions": 2}}));
    let spec = &job["spec"];
    let found = (&spec["completions"], &spec["parallelism"], &spec["backoffLimit"]);
    assert_eq!(found, (&json!(2), &json!(1), &json!(i32::MAX)));
}

#[test]
fn custom_resources_get_only_the_defaults_of_their_schema() {
    let route = filled("gateway.v1.HTTPRouteSpec", json!({"parentRefs": [{"name": "g"}]}));
    assert_eq!(
        route,
        json!({
            "parentRefs": [{"name": "g", "group": "gateway.networking.k8s.io", "kind": "Gateway"}],
            "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}]}],
        })
    );
    let container = json!({"name": "a", "image": "i", "args": [], "resources": {"limits": {}}, "ports": [{"containerPort": 1}]});
    let group = json!({"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}});
    let group = filled("leaderworkerset.v1.LeaderWorkerSetSpec", group);
    assert_eq!((&group["replicas"], &group["leaderWorkerTemplate"]["size"]), (&json!(1), &json!(1)));
    let spec = &group["leaderWorkerTemplate"]["workerTemplate"]["spec"];
    let expected = json!({"name": "a", "image": "i", "ports": [{"containerPort": 1, "protocol": "TCP"}]});
    assert_eq!(spec, &json!({"containers": [expected]}));
}

#[test]
fn values_of_other_types_are_left_alone() {
    for value in
        [json!(null), json!([]), json!({"spec": 1}), json!({"spec": {"containers": [1, {"ports": 2}]}})]
    {
        let _ = filled("core.v1.Pod", value.clone());
        let _ = filled("apps.v1.Deployment", value.clone());
        let _ = filled("batch.v1.Job", value);
    }
    assert_eq!(filled("no.v1.Type", json!({"a": 1})), json!({"a": 1}));
}

#[test]
fn defaults_stop_when_the_object_is_too_large_to_be_stored() {
    let spec = filled("core.v1.PodSpec", json!({"containers": vec![json!({}); 200_000]}));
    let filled = spec["containers"].as_array().unwrap().iter().filter(|container| **container != json!({}));
    let count = filled.clone().count();
    let bytes: usize = filled.map(longboat_schema::size).sum();
    assert!(
        bytes >= longboat_schema::MAX_OBJECT_BYTES && count < 20_000,
        "{count} containers, {bytes} bytes"
    );
}
