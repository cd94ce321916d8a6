//! Requests that kube-apiserver answers otherwise than one would think.

use kube::Client;
use longboat_apiserver::{ApiServer, Options};
use serde_json::{Value, json};

use crate::asking::{ask, create};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

fn client() -> Client {
    ApiServer::new(Options::default()).unwrap().client("default")
}

async fn scalable(client: &Client) -> &'static str {
    let integer = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let mut spec = integer.clone();
    spec["properties"]["nick"] = json!({"type": "string"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ws.x.test"},
        "spec": {"group": "x.test", "names": {"kind": "W", "plural": "ws"}, "scope": "Namespaced", "versions": [{
            "name": "v1", "served": true, "storage": true,
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": integer}}},
        }]},
    });
    create(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    let path = "/apis/x.test/v1/namespaces/default/ws";
    let mut is_served = false;
    for _ in 0..100 {
        is_served = ask(client, "GET", path, JSON, "").await.0 == 200;
        if is_served {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(is_served, "the custom resource is not served");
    path
}

fn w(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "x.test/v1", "kind": "W", "metadata": {"name": name}, "spec": spec})
}

fn causes(answer: &Value) -> Vec<(&str, &str)> {
    answer["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| (cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn replicas_of_custom_objects_are_what_a_scale_can_hold() {
    let client = client();
    let path = scalable(&client).await;
    for (spec, message) in [
        (
            r#"{"replicas":2.0}"#,
            "Invalid value: 0: .spec.replicas accessor error: 2 is of the type float64, expected int64",
        ),
        (
            r#"{"replicas":5000000000}"#,
            "Invalid value: 5000000000: should be less than or equal to 2147483647",
        ),
        (r#"{"replicas":-1}"#, "Invalid value: -1: should be a non-negative integer"),
    ] {
        let body =
            format!(r#"{{"apiVersion":"x.test/v1","kind":"W","metadata":{{"name":"a"}},"spec":{spec}}}"#);
        let (code, answer) = ask(&client, "POST", path, JSON, body).await;
        assert_eq!((code, causes(&answer)), (422, vec![(".spec.replicas", message)]), "{answer}");
    }
    create(&client, path, &w("a", &json!({"nick": "n"}))).await;
    let scale = format!("{path}/a/scale");
    let (code, answer) = ask(&client, "GET", &scale, JSON, "").await;
    assert_eq!(code, 500);
    assert_eq!(
        answer["message"],
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    let (code, answer) = ask(&client, "PATCH", &scale, MERGE, r#"{"spec":{"replicas":3}}"#).await;
    assert_eq!((code, &answer["spec"]["replicas"]), (200, &json!(3)), "{answer}");
    assert_eq!(ask(&client, "GET", &scale, JSON, "").await.0, 200);
    let (code, answer) =
        ask(&client, "PATCH", &format!("{path}/a/status"), MERGE, r#"{"status":{"replicas":-1}}"#).await;
    assert_eq!(code, 422, "{answer}");
    assert_eq!(
        causes(&answer),
        [(".status.replicas", "Invalid value: -1: should be a non-negative integer")]
    );
}

#[tokio::test]
async fn a_patch_that_drops_the_revision_is_an_update_without_one() {
    let client = client();
    let path = scalable(&client).await;
    create(&client, path, &w("a", &json!({"nick": "n"}))).await;
    let whole =
        json!([{"op": "replace", "path": "", "value": w("a", &json!({"nick": "whole"}))}]).to_string();
    let none = json!({"metadata": {"resourceVersion": null}}).to_string();
    let object = format!("{path}/a");
    for (kind, body) in [("application/json-patch+json", &whole), (MERGE, &none)] {
        let (code, answer) = ask(&client, "PATCH", &object, kind, body.clone()).await;
        assert_eq!(code, 422, "{answer}");
        assert_eq!(
            causes(&answer),
            [("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")]
        );
    }
    // kinds that allow it
    let maps = "/api/v1/namespaces/default/configmaps";
    create(&client, maps, &json!({"metadata": {"name": "a"}})).await;
    let (code, answer) = ask(&client, "PATCH", &format!("{maps}/a"), MERGE, none).await;
    assert_eq!(code, 200, "{answer}");
    // and one built-in kind that does not
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"metadata": {"name": "a"}, "spec": {}});
    create(&client, leases, &lease).await;
    let (code, answer) = ask(&client, "PUT", &format!("{leases}/a"), JSON, lease.to_string()).await;
    assert_eq!(code, 422, "{answer}");
}

#[tokio::test]
async fn times_are_stored_in_utc() {
    let client = client();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    create(&client, pods, &pod).await;
    let status = json!({"status": {
        "startTime": "2020-01-01T01:00:00+01:00",
        "conditions": [{"type": "X", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00.5Z"}],
    }});
    let (code, answer) = ask(&client, "PATCH", &format!("{pods}/p/status"), MERGE, status.to_string()).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer["status"]["startTime"], "2020-01-01T00:00:00Z");
    assert_eq!(answer["status"]["conditions"][0]["lastTransitionTime"], "2020-01-01T00:00:00Z");
    // A client that asks for logs since the last second that RFC 3339 has gets none; the pod has no node, hence 204.
    for (since, code) in [("9999-12-31T23:59:59Z", 204), ("9999-12-32T00:00:00Z", 400)] {
        assert_eq!(ask(&client, "GET", &format!("{pods}/p/log?sinceTime={since}"), "", "").await.0, code);
    }
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"renewTime": "2020-01-01T01:00:00.123456+01:00"}});
    let lease = create(&client, leases, &lease).await;
    assert_eq!(lease["spec"]["renewTime"], "2020-01-01T00:00:00.123456Z");
}

#[tokio::test]
async fn garbage_is_refused_or_dropped_as_go_does() {
    let client = client();
    let maps = "/api/v1/namespaces/default/configmaps";
    let (code, answer) = ask(&client, "GET", &format!("{maps}?labelSelector=%"), JSON, "").await;
    assert_eq!((code, &answer["kind"]), (200, &json!("ConfigMapList")));
    let protobuf = "application/vnd.kubernetes.protobuf";
    let (code, answer) = ask(&client, "POST", maps, protobuf, "xx").await;
    assert_eq!(code, 400);
    assert_eq!(
        answer["message"],
        "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf \
         message, expected prefix [107 56 115 0] (7878)"
    );
    let (code, answer) = ask(&client, "POST", maps, protobuf, *b"k8s\0\x12\x02\x0a\x7f").await;
    assert_eq!(code, 400);
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.starts_with("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: "),
        "{message}"
    );
}

#[tokio::test]
async fn an_update_of_a_slice_is_refused_only_for_what_it_changes() {
    let client = client();
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({"metadata": {"name": "e"}, "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.4"]}]});
    create(&client, slices, &slice).await;
    let (code, answer) =
        ask(&client, "PATCH", &format!("{slices}/e"), MERGE, r#"{"addressType":"IPv6"}"#).await;
    assert_eq!(code, 422);
    assert_eq!(causes(&answer), [("addressType", "Invalid value: \"IPv6\": field is immutable")]);
    let new = r#"{"endpoints":[{"addresses":["192.0.2.4"]},{"addresses":["nonsense"]}]}"#;
    let (code, answer) = ask(&client, "PATCH", &format!("{slices}/e"), MERGE, new).await;
    assert_eq!((code, causes(&answer).len()), (422, 1), "{answer}");
}

#[tokio::test]
async fn a_precondition_of_the_wrong_type_does_not_count_as_none() {
    let client = client();
    let path = "/api/v1/namespaces/default/configmaps";
    create(&client, path, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})).await;
    let path = format!("{path}/a");
    let (code, answer) = ask(&client, "DELETE", &path, JSON, r#"{"preconditions":{"uid":5}}"#).await;
    // As for other options of the wrong type.
    assert_eq!(code, 500, "{answer}");
    assert_eq!(ask(&client, "GET", &path, JSON, "").await.0, 200);
}
