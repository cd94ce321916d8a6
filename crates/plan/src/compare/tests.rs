//! When a live child is written, and which live values a write keeps.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use longboat_api::foreign::{httproute::HTTPRoute, scaledobject::ScaledObject};
use serde_json::{Value, json};

use super::Compare;
use crate::server_defaults;

fn deployment(change: impl FnOnce(&mut Value)) -> Deployment {
    let mut object = json!({
        "metadata": {"name": "d", "labels": {"ours": "1"}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{
                    "name": "main", "image": "i:1", "args": [], "resources": {"limits": {"cpu": "1000m"}},
                }]},
            },
        },
    });
    change(&mut object);
    serde_json::from_value(object).unwrap()
}

/// Returns the Deployment as the API server would store it.
fn stored(mut deployment: Deployment) -> Deployment {
    server_defaults::deployment(deployment.spec.as_mut().unwrap());
    deployment
}

#[test]
fn defaults_notations_and_the_metadata_of_others_are_no_difference() {
    let live = stored(deployment(|object| {
        object["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
        object["metadata"]["labels"]["theirs"] = "2".into();
        let template = &mut object["spec"]["template"];
        template["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/restartedAt": "now"});
        template["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1".into();
    }));
    assert!(!deployment(|_| {}).differs(&live));
}

#[test]
fn a_removed_field_of_the_pod_and_a_changed_scale_are_differences() {
    let live = stored(deployment(|object| {
        object["spec"]["template"]["spec"]["nodeSelector"] = json!({"x": "y"});
    }));
    assert!(deployment(|_| {}).differs(&live));
    let scaled = stored(deployment(|object| object["spec"]["replicas"] = 5.into()));
    assert!(deployment(|_| {}).differs(&scaled));
}

#[test]
fn a_write_keeps_what_others_decide() {
    let live = stored(deployment(|object| {
        object["metadata"]["resourceVersion"] = "7".into();
        object["metadata"]["labels"]["theirs"] = "2".into();
        object["spec"]["paused"] = true.into();
    }));
    let mut desired = deployment(|object| object["metadata"]["labels"]["ours"] = "2".into());
    desired.carry_over(&live);
    let labels = desired.metadata.labels.unwrap();
    assert_eq!((labels["ours"].as_str(), labels["theirs"].as_str()), ("2", "2"));
    assert_eq!(desired.metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(desired.spec.unwrap().paused, Some(true));

    let service = |spec: Value| -> Service {
        serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap()
    };
    let live = service(
        json!({"clusterIP": "10.0.0.1", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}),
    );
    let mut desired = service(json!({"ports": [{"port": 81}]}));
    assert!(desired.differs(&live));
    desired.carry_over(&live);
    assert_eq!(desired.spec.unwrap().cluster_ip.as_deref(), Some("10.0.0.1"));
}

#[test]
fn a_rule_too_many_is_a_difference_and_host_names_of_others_are_not() {
    let route = |spec: Value| -> HTTPRoute {
        serde_json::from_value(json!({"metadata": {"name": "r"}, "spec": spec})).unwrap()
    };
    let rule = |path: &str| json!({"matches": [{"path": {"type": "PathPrefix", "value": path}}]});
    let desired = route(json!({"rules": [rule("/a")]}));
    assert!(!desired.differs(&route(json!({"hostnames": ["x.example.com"], "rules": [rule("/a")]}))));
    assert!(desired.differs(&route(json!({"rules": [rule("/a"), rule("/b")]}))));
}

#[test]
fn what_the_variant_autoscaler_looks_for_goes_when_it_is_not_wanted_any_more() {
    let object = |metadata: Value| -> ScaledObject {
        serde_json::from_value(json!({
            "metadata": metadata,
            "spec": {"scaleTargetRef": {"name": "d"}, "triggers": [{"type": "cpu", "metadata": {"value": "60"}}]},
        }))
        .unwrap()
    };
    let mut desired = object(json!({"name": "s", "labels": {"ours": "1"}}));
    let theirs = json!({
        "name": "s",
        "labels": {"ours": "1", "theirs": "1", "inference.optimization/acceleratorName": "H100"},
        "annotations": {"theirs": "2", "llm-d.ai/managed": "true", "llm-d.ai/model-id": "m"},
    });
    let live = object(theirs);
    assert!(desired.differs(&live));
    desired.carry_over(&live);
    let annotations = json!(desired.metadata.annotations);
    assert_eq!(annotations, json!({"theirs": "2"}));
    assert_eq!(json!(desired.metadata.labels), json!({"ours": "1", "theirs": "1"}));
    assert!(!desired.differs(&desired.clone()));
}

#[test]
fn zero_false_and_an_empty_selector_are_written_where_nothing_means_something_else() {
    let changes: [fn(&mut Value); 6] = [
        |pod| pod["automountServiceAccountToken"] = false.into(),
        |pod| pod["hostUsers"] = false.into(),
        |pod| pod["securityContext"] = json!({"runAsNonRoot": false}),
        |pod| pod["containers"][0]["securityContext"] = json!({"runAsUser": 0}),
        |pod| pod["tolerations"] = json!([{"key": "a", "tolerationSeconds": 0}]),
        |pod| {
            pod["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "a", "namespaceSelector": {}},
            ]}});
        },
    ];
    let without: [fn(&mut Value); 6] = [
        |_| {},
        |_| {},
        |_| {},
        |_| {},
        |pod| pod["tolerations"] = json!([{"key": "a"}]),
        |pod| {
            pod["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "a"},
            ]}});
        },
    ];
    for (with, without) in changes.into_iter().zip(without) {
        let [with, without] = [with, without]
            .map(|change| deployment(|object| change(&mut object["spec"]["template"]["spec"])));
        assert!(with.differs(&stored(without.clone())), "{with:?}");
        assert!(without.differs(&stored(with.clone())), "{with:?}");
        assert!(!with.differs(&stored(with.clone())), "{with:?}");
    }
}

#[test]
fn an_idle_count_of_zero_is_not_the_same_as_none() {
    let object = |idle: Value| -> ScaledObject {
        serde_json::from_value(json!({
            "metadata": {"name": "s"},
            "spec": {
                "scaleTargetRef": {"name": "d"}, "idleReplicaCount": idle,
                "triggers": [{"type": "cpu", "metadata": {"value": "60"}}],
            },
        }))
        .unwrap()
    };
    assert!(object(json!(0)).differs(&object(Value::Null)));
    assert!(object(Value::Null).differs(&object(json!(0))));
}
