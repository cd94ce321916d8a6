//! What Gateways of a cluster get, and where they are.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    ByteString,
    api::{apps::v1::Deployment, core::v1::Secret},
};
use longboat_key::Namespace;
use serde_json::{Value, json};

use super::{PodTemplate, children::Children, place};
use crate::{
    RoutingInputs,
    resolved::Resolved,
    route::RouteParser,
    secret_namespaces::SecretNamespaces,
    status::{self, Updates},
    tests::{observed, secret, summary},
};

#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
fn gateway(spec: Value) -> Value {
    let mut gateway = json!({
        "kind": "Gateway", "metadata": {"name": "models", "uid": "1-2"},
        "spec": {"listeners": [
            {"name": "http", "port": 80, "protocol": "HTTP"},
            {"name": "https", "port": 443, "protocol": "HTTPS",
                "tls": {"certificateRefs": [{"name": "own"}, {"name": "theirs", "namespace": "other"}]}},
        ]},
    });
    for (field, value) in spec.as_object().unwrap() {
        gateway["spec"][field] = value.clone();
    }
    gateway
}

fn grant() -> Value {
    json!({"kind": "ReferenceGrant", "metadata": {"name": "grant", "namespace": "other"}, "spec": {
        "from": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "ns"}],
        "to": [{"group": "", "kind": "Secret"}],
    }})
}

fn resolved(observed: &RoutingInputs, deployments: &[Arc<Deployment>]) -> Resolved {
    let ports = place::ports(observed, deployments, &BTreeMap::new());
    Resolved::new(observed, &ports, &mut RouteParser::default())
}

fn planned(objects: Vec<Value>) -> Children {
    let observed = observed(objects);
    planned_with(&observed, &SecretNamespaces::default())
}

fn planned_with(observed: &RoutingInputs, secrets: &SecretNamespaces) -> Children {
    let template = PodTemplate { image: "r/l:1".into() };
    Children::new(observed, &resolved(observed, &[]), &template, secrets).unwrap()
}

fn json_of<K: serde::Serialize>(objects: &[(longboat_key::Key, K)]) -> Vec<Value> {
    objects.iter().map(|(_, object)| serde_json::to_value(object).unwrap()).collect()
}

#[test]
fn the_rights_of_a_gateway_name_what_it_refers_to() {
    let mut theirs = secret("theirs", "a.example").0;
    theirs["metadata"]["namespace"] = "other".into();
    let rules = |objects| {
        let roles = json_of(&planned(objects).roles);
        let lines = roles.iter().flat_map(|role| {
            role["rules"].as_array().unwrap().iter().map(move |rule| {
                format!("{} {} {}", role["metadata"]["namespace"], rule["resources"], rule["resourceNames"])
            })
        });
        lines.map(|line| line.replace('"', "")).collect::<Vec<_>>()
    };
    let objects = vec![gateway(json!({})), secret("own", "a.example").0, theirs];
    let own = ["ns [gateways] [models]", "ns [secrets] [models-longboat-api-keys,own]"];
    assert_eq!(rules(objects.clone()), own);
    // A grant of the other namespace is needed for the right, too.
    assert_eq!(rules([objects, vec![grant()]].concat()), [own[0], own[1], "other [secrets] [theirs]"]);
}

/// A Secret with an API key, a Service, and a route from `from` to that Service.
fn keyed(namespace: &str, from: &str) -> Vec<Value> {
    let key = serde_json::to_value(ByteString(format!("sk-{namespace:_<24}").into_bytes())).unwrap();
    let metadata = |name: &str, namespace: &str| json!({"name": name, "namespace": namespace});
    let mut secret = json!({"kind": "Secret", "metadata": metadata("team", namespace), "data": {"key": key}});
    secret["metadata"]["labels"] = json!({"longboat.dev/api-key": "true"});
    vec![
        secret,
        json!({"kind": "Service", "metadata": metadata("svc", namespace), "spec": {"ports": [{"port": 80}]}}),
        json!({"kind": "HTTPRoute", "metadata": metadata(&format!("to-{namespace}"), from), "spec": {
            "parentRefs": [{"name": "models", "namespace": "ns"}],
            "rules": [{"backendRefs": [{"name": "svc", "namespace": namespace, "port": 80}]}],
        }}),
    ]
}

#[test]
fn pods_get_the_keys_of_the_namespaces_that_have_opened_themselves_to_the_gateway() {
    let mut gateway = gateway(json!({}));
    let all = json!({"namespaces": {"from": "All"}});
    gateway["spec"]["listeners"] =
        json!([{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": all}]);
    // "a" has a route of its own. "b" and "c" have none, and only "c" permits that of "ns". "d" is not used.
    let unused: Vec<_> = keyed("d", "d").into_iter().filter(|object| object["kind"] != "HTTPRoute").collect();
    let grant = json!({"kind": "ReferenceGrant", "metadata": {"name": "grant", "namespace": "c"}, "spec": {
        "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "ns"}],
        "to": [{"group": "", "kind": "Service"}],
    }});
    let copied = |annotations: Value, secrets: &[&str]| {
        gateway["metadata"]["annotations"] = annotations;
        let objects = [
            vec![gateway.clone(), grant.clone()],
            keyed("a", "a"),
            keyed("b", "ns"),
            keyed("c", "ns"),
            unused.clone(),
        ];
        let secrets = SecretNamespaces(secrets.iter().map(|name| Namespace(*name).to_shared()).collect());
        let children = planned_with(&observed(objects.concat()), &secrets);
        let named = json_of(&children.roles).iter().any(|role| role.to_string().contains("api-keys"));
        let data = |secret: &Secret| secret.data.clone().unwrap().into_keys().collect::<Vec<_>>();
        (named, children.api_keys.iter().map(|(_, secret)| data(secret)).collect::<Vec<_>>())
    };
    let required = json!({"longboat.dev/api-keys": "required"});
    let mut copied = copied;
    assert_eq!(copied(json!({}), &[]), (true, vec![]), "nobody asks for keys");
    assert_eq!(copied(required.clone(), &[]), (true, vec![vec!["a".to_owned(), "c".to_owned()]]));
    // Without the right to the Secrets of the Gateway's namespace, the controller cannot give it away.
    assert_eq!(copied(required, &["a"]), (false, vec![]));
}

#[test]
fn the_infrastructure_and_the_parameters_of_a_gateway_shape_its_objects() {
    let infrastructure = json!({"infrastructure": {
        "labels": {"team": "a", "longboat.dev/gateway": "mine"}, "annotations": {"balancer": "internal"},
        "parametersRef": {"group": "", "kind": "ConfigMap", "name": "parameters"},
    }});
    let parameters = json!({"kind": "ConfigMap", "metadata": {"name": "parameters"},
        "data": {"serviceType": "ClusterIP", "replicas": "3", "drainTimeout": "1m"}});
    let children = planned(vec![gateway(infrastructure), parameters]);
    let service = &json_of(&children.services)[0];
    let metadata = &service["metadata"];
    assert_eq!(metadata["name"], "models-longboat");
    assert_eq!(metadata["annotations"], json!({"balancer": "internal"}));
    // The labels that selectors need are not for the user to choose.
    assert_eq!(
        (&metadata["labels"]["team"], &metadata["labels"]["longboat.dev/gateway"]),
        (&"a".into(), &"models-longboat".into())
    );
    assert_eq!(metadata["ownerReferences"][0]["uid"], "1-2");
    assert_eq!(service["spec"]["type"], "ClusterIP");
    let ports: Vec<_> =
        service["spec"]["ports"].as_array().unwrap().iter().map(|port| &port["port"]).collect();
    assert_eq!(ports, [80, 443]);
    let deployment = &json_of(&children.deployments)[0]["spec"];
    assert_eq!(deployment["replicas"], 3);
    let pod = &deployment["template"]["spec"];
    assert_eq!(pod["terminationGracePeriodSeconds"], 5 + 60 + 10);
    assert_eq!(pod["securityContext"]["sysctls"][0]["name"], "net.ipv4.ip_unprivileged_port_start");
    assert_eq!(pod["containers"][0]["image"], "r/l:1");
}

#[test]
fn a_gateway_without_usable_listeners_or_parameters_gets_nothing() {
    let parameters =
        json!({"infrastructure": {"parametersRef": {"group": "", "kind": "ConfigMap", "name": "none"}}});
    for spec in [
        parameters,
        json!({"listeners": [{"name": "own", "port": 15020, "protocol": "HTTP"}]}),
        json!({"listeners": [{"name": "udp", "port": 80, "protocol": "UDP"}]}),
    ] {
        let children = planned(vec![gateway(spec)]);
        assert!(children.deployments.is_empty() && children.cluster_role_bindings.is_empty());
    }
}

/// Parameters of a Gateway, and the reference to them.
fn picking(value: &str) -> (Value, Value) {
    let reference = json!({"infrastructure": {
        "parametersRef": {"group": "", "kind": "ConfigMap", "name": "parameters"},
    }});
    let map = json!({"kind": "ConfigMap", "metadata": {"name": "parameters"}, "data": {"picking": value}});
    (reference, map)
}

#[test]
fn only_a_gateway_that_picks_has_the_rights_of_a_picker() {
    let objects = |value: &str| {
        let (reference, map) = picking(value);
        let children = planned(vec![gateway(reference), map]);
        let bindings = json_of(&children.cluster_role_bindings);
        let roles = bindings.iter().map(|binding| binding["roleRef"]["name"].as_str().unwrap().to_owned());
        let pod = json_of(&children.deployments)[0]["spec"]["template"]["spec"]["containers"][0].clone();
        let picks = pod["args"].as_array().unwrap().contains(&"--picking=gateway".into());
        (roles.collect::<Vec<_>>(), picks)
    };
    assert_eq!(objects("pods"), (vec!["longboat-gateway".to_owned()], false));
    let roles = ["longboat-gateway", "longboat-gateway-picking", "system:auth-delegator"];
    assert_eq!(objects("gateway"), (roles.map(ToOwned::to_owned).to_vec(), true));
}

#[test]
fn a_pool_without_a_picker_is_resolved_if_the_pods_pick() {
    let pool = json!({"kind": "InferencePool", "metadata": {"name": "pool"}, "spec": {}});
    let in_pool = json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"});
    let route = json!({"kind": "HTTPRoute", "metadata": {"name": "r"}, "spec": {
        "parentRefs": [{"name": "models"}], "rules": [{"backendRefs": [in_pool]}],
    }});
    let conditions = |value: &str| {
        let (reference, map) = picking(value);
        let observed = observed(vec![gateway(reference), map, pool.clone(), route.clone()]);
        let now =
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
        let Updates { pools, .. } = status::updates(&observed, &resolved(&observed, &[]), &now);
        summary(&pools[0].status.as_ref().unwrap().parents[0].conditions)
    };
    assert_eq!(conditions("pods"), ["Accepted=True Accepted", "ResolvedRefs=False InvalidExtensionRef"]);
    assert_eq!(conditions("gateway"), ["Accepted=True Accepted", "ResolvedRefs=True ResolvedRefs"]);
}

#[test]
fn a_gateway_is_programmed_when_its_service_has_an_address_and_a_pod_is_available() {
    let deployment = |available: i32| {
        let object = json!({
            "metadata": {"name": "models-longboat", "namespace": "ns"},
            "status": {"availableReplicas": available},
        });
        Arc::new(serde_json::from_value::<Deployment>(object).unwrap())
    };
    let service = |ingress: Value| {
        json!({"kind": "Service", "metadata": {"name": "models-longboat"}, "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": ingress}}})
    };
    let status = |asked: Value, ingress: Value, available: i32| {
        let observed = observed(vec![gateway(json!({"addresses": asked})), service(ingress)]);
        let resolved = resolved(&observed, &[deployment(available)]);
        let now =
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
        let Updates { gateways, .. } = status::updates(&observed, &resolved, &now);
        let status = gateways[0].status.clone().unwrap();
        (summary(&status.conditions)[1].clone(), serde_json::to_value(status.addresses).unwrap())
    };
    let ip = json!([{"ip": "192.0.2.7"}]);
    assert_eq!(status(json!([]), json!([]), 1).0, "Programmed=False AddressNotAssigned");
    assert_eq!(status(json!([]), ip.clone(), 0).0, "Programmed=False NoResources");
    assert_eq!(
        status(json!([]), ip.clone(), 1),
        ("Programmed=True Programmed".into(), json!([{"type": "IPAddress", "value": "192.0.2.7"}]))
    );
    assert_eq!(
        status(json!([]), json!([{"hostname": "lb.example"}]), 1).1,
        json!([{"type": "Hostname", "value": "lb.example"}])
    );
    assert_eq!(status(json!([{"value": "192.0.2.8"}]), ip.clone(), 1).0, "Programmed=False AddressNotUsable");
    assert_eq!(status(json!([{"value": "192.0.2.7"}]), ip, 1).0, "Programmed=True Programmed");
}
