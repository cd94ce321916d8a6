//! When a live child is written, and which live values a write keeps.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::Service,
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use longboat_api::foreign::{
    httproute::HTTPRoute, leaderworkerset::LeaderWorkerSet, scaledobject::ScaledObject,
};
use serde_json::{Value, json};

use super::Compare;

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
    deployment.fill_in_defaults();
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
fn what_kubernetes_fills_in_is_no_difference() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let latest = format!("nginx:latest@{digest}");
    let item = json!({"path": "p", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}});
    let cases = [
        (
            json!({"containers": [{"name": "main", "image": latest}]}),
            "/containers/0/imagePullPolicy",
            json!("Always"),
        ),
        (
            json!({"containers": [{"name": "main", "image": "Reg.io/Foo"}]}),
            "/containers/0/imagePullPolicy",
            json!("IfNotPresent"),
        ),
        (
            json!({"volumes": [{"name": "v", "image": {"reference": latest}}]}),
            "/volumes/0/image/pullPolicy",
            json!("Always"),
        ),
        (
            json!({"volumes": [{"name": "v", "downwardAPI": {"items": [item]}}]}),
            "/volumes/0/downwardAPI/items/0/resourceFieldRef/divisor",
            json!("0"),
        ),
        (
            json!({"volumes": [{"name": "v", "projected": {"sources": [{"downwardAPI": {"items": [item]}}]}}]}),
            "/volumes/0/projected/sources/0/downwardAPI/items/0/resourceFieldRef/divisor",
            json!("0"),
        ),
    ];
    for (pod, place, value) in cases {
        let desired = deployment(|object| object["spec"]["template"]["spec"] = pod);
        let filled = serde_json::to_value(stored(desired.clone())).unwrap();
        let found = filled.pointer(&format!("/spec/template/spec{place}"));
        assert_eq!(found, Some(&value), "{place}");
        let mut live = serde_json::to_value(&desired).unwrap();
        let (parent, key) = place.rsplit_once('/').unwrap();
        live.pointer_mut(&format!("/spec/template/spec{parent}")).unwrap()[key] = value;
        assert!(!desired.differs(&serde_json::from_value(live).unwrap()), "{place}");
    }
}

#[test]
fn notations_of_one_amount_are_the_same_where_the_type_is_a_quantity() {
    let of = longboat_types::type_def("core.v1.Pod");
    let same = |place: &str, a: &str, b: &str| super::same_value(of, place, Some(&json!(a)), Some(&json!(b)));
    let limits = "/spec/containers/0/resources/limits";
    assert!(same(&format!("{limits}/cpu"), "1000m", "1"));
    assert!(same(&format!("{limits}/memory"), "1024Mi", "1Gi"));
    assert!(same(&format!("{limits}/nvidia.com~1gpu"), "0.5", "500m"));
    assert!(!same(&format!("{limits}/cpu"), "1", "2"));
    assert!(!same("/spec/containers/0/image", "1000m", "1"));
    assert!(!same(&format!("{limits}/cpu"), "x", "y"));
    let missing = |place: &str, value: Value| super::same_value(of, place, None, Some(&value));
    assert!(missing("/spec/hostNetwork", json!(false)) && missing("/spec/nodeName", json!("")));
    assert!(!missing("/spec/hostUsers", json!(false)) && !missing("/spec/containers/0/args/0", json!("")));
}

#[test]
fn the_cache_of_a_cross_origin_answer_has_the_age_of_the_definition() {
    let route = |filter: Value| -> HTTPRoute {
        let rule = json!({"filters": [{"type": "CORS", "cors": filter}]});
        serde_json::from_value(json!({"metadata": {"name": "r"}, "spec": {"rules": [rule]}})).unwrap()
    };
    let desired = route(json!({"allowOrigins": ["https://a.example"]}));
    assert!(!desired.differs(&route(json!({"allowOrigins": ["https://a.example"], "maxAge": 5}))));
    assert!(desired.differs(&route(json!({"allowOrigins": ["https://a.example"], "maxAge": 6}))));
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
    let mut changed =
        deployment(|object| object["spec"]["template"]["spec"]["nodeSelector"] = json!({"x": "y"}));
    changed.carry_over(&live);
    assert_eq!(changed.spec.unwrap().paused, None, "pods with a change start");

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
    let with = |affinity: &str| service(json!({"ports": [{"port": 80}], "sessionAffinity": affinity}));
    let desired = service(json!({"ports": [{"port": 80}]}));
    assert!(!desired.differs(&with("None")) && desired.differs(&with("ClientIP")));
}

#[test]
fn a_binding_of_another_role_is_created_again_and_other_subjects_are_an_update() {
    let binding = |role: &str, account: &str| -> RoleBinding {
        serde_json::from_value(json!({
            "metadata": {"name": "b", "namespace": "ns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "ns"}],
        }))
        .unwrap()
    };
    let desired = binding("r", "a");
    assert!(desired.differs(&binding("r", "b")) && !desired.must_be_recreated(&binding("r", "b")));
    assert!(desired.differs(&binding("other", "a")) && desired.must_be_recreated(&binding("other", "a")));
    let of_cluster = |role: &str| ClusterRoleBinding {
        role_ref: binding(role, "a").role_ref,
        ..ClusterRoleBinding::default()
    };
    assert!(
        of_cluster("r").must_be_recreated(&of_cluster("other"))
            && !of_cluster("r").must_be_recreated(&of_cluster("r"))
    );
}

#[test]
fn pods_that_were_restarted_roll_again_only_with_another_change_of_the_pods() {
    let restarted = json!({"kubectl.kubernetes.io/restartedAt": "now"});
    let live = stored(deployment(|object| {
        object["spec"]["template"]["metadata"]["annotations"] = restarted.clone();
    }));
    let written = |change: fn(&mut Value)| {
        let mut desired = deployment(change);
        desired.carry_over(&live);
        desired.spec.unwrap().template.metadata.unwrap().annotations
    };
    assert_eq!(json!(written(|object| object["spec"]["replicas"] = 5.into())), restarted);
    let image = |object: &mut Value| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2".into();
    };
    assert_eq!(written(image), None);

    let group = |replicas: i32, image: &str, annotations: &Value| -> LeaderWorkerSet {
        let pods = |image: &str| {
            let container = json!({"name": "main", "image": image});
            json!({"metadata": {"annotations": annotations}, "spec": {"containers": [container]}})
        };
        let templates = json!({"size": 2, "leaderTemplate": pods("i:1"), "workerTemplate": pods(image)});
        let spec = json!({"replicas": replicas, "leaderWorkerTemplate": templates});
        serde_json::from_value(json!({"metadata": {"name": "g"}, "spec": spec})).unwrap()
    };
    let live = group(1, "i:1", &restarted);
    let written = |replicas, image| {
        let mut desired = group(replicas, image, &Value::Null);
        desired.carry_over(&live);
        let templates = desired.spec.leader_worker_template;
        [templates.leader_template.unwrap(), templates.worker_template]
            .map(|pods| json!(pods.metadata.and_then(|metadata| metadata.annotations)))
    };
    assert_eq!(written(2, "i:1"), [restarted.clone(), restarted.clone()]);
    assert_eq!(written(1, "i:2"), [Value::Null, Value::Null]);
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
