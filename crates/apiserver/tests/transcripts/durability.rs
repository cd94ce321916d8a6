//! What was acknowledged survives.

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

    // a copy of the file while the server runs is what a killed process leaves behind
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
