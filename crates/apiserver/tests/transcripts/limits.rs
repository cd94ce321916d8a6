//! Writes of large objects, and of objects that would be too large.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http_body_util::BodyExt;
use kube::Client;
use longboat_apiserver::{
    ApiServer, Options,
    admission::{Admission, AdmissionAnswer, AdmissionRequest},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::asking::{ask, create};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const PATH: &str = "/apis/x.test/v1/namespaces/default/as";

/// A client of a server with a custom resource whose `spec` has this schema.
async fn client(spec: &Value) -> Client {
    let client = ApiServer::new(Options::default()).unwrap().client("default");
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.x.test"},
        "spec": {"group": "x.test", "names": {"kind": "A", "plural": "as"}, "scope": "Namespaced", "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": free}}},
        }]},
    });
    create(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    client
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "x.test/v1", "kind": "A", "metadata": {"name": "a"}, "spec": spec})
}

#[track_caller]
fn assert_too_large((code, answer): (u16, Value)) {
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("etcdserver: request is too large"), "{message}");
    assert_eq!((code, &answer["reason"]), (413, &json!("RequestEntityTooLarge")));
}

#[tokio::test]
async fn a_small_request_does_not_become_a_large_object_by_defaults() {
    let item =
        json!({"type": "object", "properties": {"x": {"type": "string", "default": "x".repeat(50_000)}}});
    let spec = json!({"type": "object", "properties": {"a": {"type": "array", "items": item}}});
    let client = client(&spec).await;
    let many = object(&json!({"a": vec![json!({}); 6000]}));
    assert_too_large(ask(&client, "POST", PATH, JSON, many.to_string()).await);
    let apply = format!("{PATH}/a?fieldManager=m");
    assert_too_large(ask(&client, "PATCH", &apply, "application/apply-patch+yaml", many.to_string()).await);
    create(&client, PATH, &object(&json!({"a": vec![json!({}); 10]}))).await;
    assert_too_large(ask(&client, "PUT", &format!("{PATH}/a"), JSON, many.to_string()).await);
}

#[tokio::test]
async fn an_object_does_not_grow_without_limit() {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let client = client(&free).await;
    let text = "x".repeat(1_000_000);
    create(&client, PATH, &object(&json!({"a": text}))).await;
    let path = format!("{PATH}/a");
    let more = json!({"spec": {"b": text}}).to_string();
    assert_too_large(ask(&client, "PATCH", &path, MERGE, more).await);
    let copy = json!([{"op": "copy", "from": "/spec/a", "path": "/spec/b"}]).to_string();
    assert_too_large(ask(&client, "PATCH", &path, "application/json-patch+json", copy).await);
    let apply = object(&json!({"b": text})).to_string();
    let kind = "application/apply-patch+yaml";
    assert_too_large(ask(&client, "PATCH", &format!("{path}?fieldManager=m"), kind, apply).await);
    let status = json!({"status": {"b": text}}).to_string();
    assert_too_large(ask(&client, "PATCH", &format!("{path}/status"), MERGE, status).await);
    let (code, answer) = ask(&client, "PATCH", &path, MERGE, json!({"spec": {"a": "y"}}).to_string()).await;
    assert_eq!((code, &answer["spec"]), (200, &json!({"a": "y"})), "a smaller object can be written");
}

#[tokio::test]
async fn managed_fields_count() {
    let item = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
    let list = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map",
                      "x-kubernetes-list-map-keys": ["name"]});
    let client = client(&json!({"type": "object", "properties": {"a": list}})).await;
    let items: Vec<Value> = (0..40_000).map(|i| json!({"name": format!("{i:020}")})).collect();
    let object = object(&json!({"a": items}));
    assert!(object.to_string().len() < 1_400_000);
    assert_too_large(ask(&client, "POST", PATH, JSON, object.to_string()).await);
}

#[tokio::test]
async fn warnings_about_many_fields_fit_in_the_head_of_an_answer() {
    let client = ApiServer::new(Options::default()).unwrap().client("default");
    let fields: serde_json::Map<String, Value> = (0..50_000).map(|i| (format!("f{i}"), json!(0))).collect();
    let mut map = json!({"metadata": {"name": "a"}});
    map.as_object_mut().unwrap().extend(fields);
    let request = http::Request::post("/api/v1/namespaces/default/configmaps?fieldValidation=Warn");
    let answer = client.send(request.body(map.to_string().into_bytes().into()).unwrap()).await.unwrap();
    let warnings = answer.headers().get_all("warning").iter();
    let bytes: usize = warnings.map(http::HeaderValue::len).sum();
    assert!((4096..8192).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn a_list_of_large_objects_comes_object_by_object() {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let client = client(&free).await;
    let mut largest = 0;
    for number in 0..10 {
        let items: Vec<Value> = (0..10_000).map(|i| json!({"k": format!("{number}-{i}")})).collect();
        let mut object = object(&json!({"a": items}));
        object["metadata"]["name"] = json!(format!("a{number}"));
        largest = create(&client, PATH, &object).await.to_string().len().max(largest);
    }
    let request = http::Request::get(PATH).body(Vec::new().into()).unwrap();
    let mut body = client.send(request).await.unwrap().into_body();
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        frames.push(frame.unwrap().into_data().unwrap());
    }
    let sizes: Vec<usize> = frames.iter().map(Bytes::len).collect();
    assert!(sizes.len() >= 10 && sizes.iter().all(|size| *size < largest + 100_000), "{sizes:?}");
    let list: Value = serde_json::from_slice(&frames.concat()).unwrap();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 10);
    for (number, item) in items.iter().enumerate() {
        let (code, one) = ask(&client, "GET", &format!("{PATH}/a{number}"), JSON, "").await;
        assert!(code == 200 && one == *item, "the list has each object as it is");
    }
}

/// Keeps the thread that answers a write of a ConfigMap busy until it is told to go on.
struct Busy {
    told: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Admission for Busy {
    fn handles(&self, _: &str, resource: &str) -> bool {
        resource == "configmaps"
    }

    fn mutate(&self, _: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        let told = Arc::clone(&self.told);
        async move {
            told.lock().recv_timeout(Duration::from_mins(1)).unwrap();
            AdmissionAnswer::default()
        }
        .boxed()
    }

    fn validate(&self, _: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async { AdmissionAnswer::default() }.boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn other_requests_go_on_while_a_large_object_is_written() {
    let server = ApiServer::new(Options::default()).unwrap();
    let client = server.client("default");
    let (tell, told) = mpsc::channel();
    server.add_admission(Arc::new(Busy { told: Arc::new(Mutex::new(told)) }));
    let path = "/api/v1/namespaces/default/configmaps";
    let body = json!({"metadata": {"name": "a"}, "data": {"a": "x".repeat(100_000)}}).to_string();
    let small = json!({"data": {"b": ""}}).to_string();
    for (method, path, kind, body) in
        [("POST", path.to_owned(), JSON, body), ("PATCH", format!("{path}/a"), MERGE, small)]
    {
        let (writer, reader) = (client.clone(), client.clone());
        let write = tokio::spawn(async move { ask(&writer, method, &path, kind, body).await });
        tokio::task::yield_now().await;
        let read = tokio::spawn(async move { ask(&reader, "GET", "/version", "", "").await });
        assert_eq!(read.await.unwrap().0, 200);
        tell.send(()).unwrap();
        let (code, answer) = write.await.unwrap();
        assert!(code < 300, "{answer}");
    }
}
