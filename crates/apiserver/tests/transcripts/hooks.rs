//! What mutating admission may change, and writes that happen meanwhile.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::{FutureExt, future::BoxFuture};
use longboat_apiserver::{
    ApiServer, Options,
    admission::{Admission, AdmissionAnswer, AdmissionRequest},
};
use serde_json::{Value, json};

use crate::asking::{ask, create};

/// Sets what the annotation `set` of a ConfigMap says.
struct Setter;

impl Admission for Setter {
    fn handles(&self, _: &str, resource: &str) -> bool {
        resource == "configmaps"
    }

    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async move {
            let object = request.object.and_then(|mut object| {
                let changes: Value =
                    serde_json::from_str(object["metadata"]["annotations"]["set"].as_str()?).ok()?;
                for (pointer, value) in changes.as_object()? {
                    *object.pointer_mut(pointer)? = value.clone();
                }
                Some(object)
            });
            AdmissionAnswer { object, ..AdmissionAnswer::default() }
        }
        .boxed()
    }

    fn validate(&self, _: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async { AdmissionAnswer::default() }.boxed()
    }
}

#[tokio::test]
async fn mutating_admission_changes_neither_namespace_nor_kind_and_adds_no_megabytes() {
    let server = ApiServer::new(Options::default()).unwrap();
    server.add_admission(Arc::new(Setter));
    let client = server.client("default");
    let path = "/api/v1/namespaces/default/configmaps";
    let map = |changes: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "a", "annotations": {"set": changes.to_string()}}})
    };
    let elsewhere = map(json!({"/metadata/namespace": "kube-system"}));
    let other = map(json!({"/kind": "Secret"}));
    let refused = [
        (400, "the namespace of the provided object does not match the namespace sent on the request"),
        (422, "ConfigMap \"a\" is invalid: kind: Invalid value: \"Secret\": must be ConfigMap"),
    ];
    for (object, (code, message)) in [&elsewhere, &other].into_iter().zip(refused) {
        let (got, answer) = ask(&client, "POST", path, "application/json", object.to_string()).await;
        assert_eq!((got, &answer["message"]), (code, &json!(message)));
    }
    let grown = map(json!({"/metadata/name": "x".repeat(1_000_000)}));
    assert_eq!(ask(&client, "POST", path, "application/json", grown.to_string()).await.0, 413);
    // The object is stored under its new name, as in kube-apiserver.
    let renamed = create(&client, path, &map(json!({"/metadata/name": "b"}))).await;
    let (_, stored) = ask(&client, "GET", &format!("{path}/b"), "", "").await;
    assert_eq!(stored["metadata"]["uid"], renamed["metadata"]["uid"]);
    create(&client, path, &map(json!({}))).await;
    let (code, _) =
        ask(&client, "PUT", &format!("{path}/a"), "application/json", elsewhere.to_string()).await;
    assert_eq!(code, 400);
}

const POD: &str = "/api/v1/namespaces/default/pods/a";

/// Binds the pod to another node while its first binding is admitted.
struct Rival {
    client: kube::Client,
    has_bound: AtomicBool,
}

async fn bind(client: &kube::Client, node: &str) -> (u16, Value) {
    let binding =
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": node}});
    ask(client, "POST", &format!("{POD}/binding"), "application/json", binding.to_string()).await
}

impl Admission for Rival {
    fn handles(&self, _: &str, resource: &str) -> bool {
        resource == "pods"
    }

    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        let is_first = request.subresource.as_deref() == Some("binding")
            && !self.has_bound.swap(true, Ordering::Relaxed);
        let client = self.client.clone();
        async move {
            if is_first {
                assert_eq!(bind(&client, "rival").await.0, 201);
            }
            AdmissionAnswer::default()
        }
        .boxed()
    }

    fn validate(&self, _: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async { AdmissionAnswer::default() }.boxed()
    }
}

#[tokio::test]
async fn a_pod_that_is_bound_meanwhile_stays_on_its_node() {
    let server = ApiServer::new(Options::default()).unwrap();
    let client = server.client("default");
    server.add_admission(Arc::new(Rival { client: client.clone(), has_bound: AtomicBool::new(false) }));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    create(&client, "/api/v1/namespaces/default/pods", &pod).await;
    let (code, answer) = bind(&client, "own").await;
    let message =
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"rival\"";
    assert_eq!((code, &answer["message"]), (409, &json!(message)));
    let (_, pod) = ask(&client, "GET", POD, "", "").await;
    assert_eq!(pod["spec"]["nodeName"], "rival");
}

/// Changes a ConfigMap while its first deletion is admitted, and warns each time.
struct Editor {
    client: kube::Client,
    has_edited: AtomicBool,
}

const MAP: &str = "/api/v1/namespaces/default/configmaps/a";

impl Admission for Editor {
    fn handles(&self, _: &str, resource: &str) -> bool {
        resource == "configmaps"
    }

    fn mutate(&self, _: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async { AdmissionAnswer::default() }.boxed()
    }

    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        let is_deletion = request.operation == "DELETE";
        let is_first = is_deletion && !self.has_edited.swap(true, Ordering::Relaxed);
        let client = self.client.clone();
        async move {
            if is_first {
                let edit = json!({"data": {"a": "b"}}).to_string();
                assert_eq!(ask(&client, "PATCH", MAP, "application/merge-patch+json", edit).await.0, 200);
            }
            let warnings = if is_deletion { vec!["think twice".to_owned()] } else { Vec::new() };
            AdmissionAnswer { warnings, ..AdmissionAnswer::default() }
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_deletion_that_is_tried_again_warns_once() {
    let server = ApiServer::new(Options::default()).unwrap();
    let client = server.client("default");
    server.add_admission(Arc::new(Editor { client: client.clone(), has_edited: AtomicBool::new(false) }));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    create(&client, "/api/v1/namespaces/default/configmaps", &map).await;
    let request = http::Request::delete(MAP).body(kube::client::Body::empty()).unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers().get_all("warning").iter().count(), 1);
}
