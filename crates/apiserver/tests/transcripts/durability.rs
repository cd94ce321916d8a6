//! Tests that acknowledged writes survive a restart.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use longboat_apiserver::{ApiServer, Options};
use serde_json::{Value, json};

fn options(directory: &std::path::Path) -> Options {
    Options { state: Some(directory.to_owned()), ..Options::default() }
}

#[tokio::test]
async fn objects_definitions_and_the_revision_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let server = ApiServer::new(options(directory.path())).unwrap();
    let client = server.client("default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).unwrap();
    let created = maps.create(&PostParams::default(), &map).await.unwrap();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.test"},
        "spec": {"group": "example.test", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let post = |path: &str, body: &Value| {
        http::Request::post(path)
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap()
    };
    client
        .request::<Value>(post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd))
        .await
        .unwrap();
    let thing = json!({"apiVersion": "example.test/v1", "kind": "Thing", "metadata": {"name": "t"}, "x": 1});
    client.request::<Value>(post("/apis/example.test/v1/namespaces/default/things", &thing)).await.unwrap();
    let revision = server.revision();

    // a copy of the file from a running server is what a killed process leaves behind
    std::fs::copy(directory.path().join("apiserver.redb"), copy.path().join("apiserver.redb")).unwrap();
    let again = ApiServer::new(options(copy.path())).unwrap();
    assert_eq!(again.revision(), revision);
    let client = again.client("default");
    let found = Api::<ConfigMap>::default_namespaced(client.clone()).get("a").await.unwrap();
    assert_eq!(found.metadata.resource_version, created.metadata.resource_version);
    let get =
        http::Request::get("/apis/example.test/v1/namespaces/default/things/t").body(Vec::new()).unwrap();
    assert_eq!(client.request::<Value>(get).await.unwrap()["x"], 1);
}

/// Sets up a custom resource with fields of any type, and returns a client for it.
async fn with_things(server: &ApiServer) -> kube::Client {
    let client = server.client("default");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.test"},
        "spec": {"group": "example.test", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let post = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        .header("content-type", "application/json")
        .body(crd.to_string().into_bytes())
        .unwrap();
    client.request::<Value>(post).await.unwrap();
    client
}

#[tokio::test]
async fn nothing_is_accepted_that_could_not_be_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::new(options(directory.path())).unwrap();
    let client = with_things(&server).await;
    let things = "/apis/example.test/v1/namespaces/default/things";
    let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
    let thing = |name: &str, levels: usize| json!({"apiVersion": "example.test/v1", "kind": "Thing", "metadata": {"name": name}, "x": nested(levels)});
    let mut accepted = 0;
    // before the depth check existed, objects from about 118 levels on were stored and could not be read again
    for levels in [10, 90, 95, 98, 99, 110, 122, 127, 200, 5000] {
        for (name, content_type, method) in [
            ("json", "application/json", "POST"),
            ("yaml", "application/yaml", "POST"),
            ("apply", "application/apply-patch+yaml", "PATCH"),
        ] {
            let name = format!("{name}-{levels}");
            let path =
                if method == "POST" { things.to_owned() } else { format!("{things}/{name}?fieldManager=m") };
            let body = format!(
                "{{\"apiVersion\": \"example.test/v1\", \"kind\": \"Thing\", \"metadata\": {{\"name\": \"{name}\"}}, \"x\": {}{}}}",
                "{\"a\": ".repeat(levels - 1) + "{}",
                "}".repeat(levels - 1)
            );
            let request =
                http::Request::builder().method(method).uri(path).header("content-type", content_type);
            match client.request::<Value>(request.body(body.into_bytes()).unwrap()).await {
                Ok(_) => accepted += 1,
                Err(kube::Error::Api(refused)) => {
                    assert!(levels > 90, "{name}: {}", refused.message);
                    let place = ["x.a.a.a", "f:x.f:a.f:a"];
                    assert!(
                        place.iter().any(|place| refused.message.contains(place)),
                        "{name}: {}",
                        refused.message
                    );
                    assert!(refused.message.contains("100 levels"), "{name}: {}", refused.message);
                }
                Err(other) => panic!("{name}: {other}"),
            }
        }
    }
    assert!(accepted >= 6, "{accepted}");
    let patch = |kind: &str, body: Value| {
        http::Request::patch(format!("{things}/json-10"))
            .header("content-type", kind)
            .body(body.to_string().into_bytes())
            .unwrap()
    };
    let deep = thing("json-10", 120)["x"].clone();
    for request in [
        patch("application/merge-patch+json", json!({ "x": deep })),
        patch("application/json-patch+json", json!([{"op": "add", "path": "/x/a", "value": deep}])),
        patch(
            "application/json-patch+json",
            json!([{"op": "add", "path": "/x/a/a/a/a/a/a/a/a/a", "value": nested(95)}]),
        ),
    ] {
        let refused = client.request::<Value>(request).await.unwrap_err().to_string();
        assert!(refused.contains("100 levels"), "{refused}");
    }
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(directory.path().join("apiserver.redb"), copy.path().join("apiserver.redb")).unwrap();
    let again = ApiServer::new(options(copy.path())).unwrap();
    let list = http::Request::get(things).body(Vec::new()).unwrap();
    let list = again.client("default").request::<Value>(list).await.unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), accepted);
}
