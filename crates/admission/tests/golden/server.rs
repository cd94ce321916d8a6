//! The embedded API server with our admission, called over HTTP semantics: status codes and warnings as clients get them.

use std::sync::Arc;

use http::{Method, Request};
use kube::{Client, client::Body};
use longboat_admission::Facts;
use longboat_testkit::{OwnKinds, TestCluster};
use serde_json::{Value, json};

/// A world in which our own kinds go through our admission.
pub(crate) struct Server {
    world: TestCluster,
    client: Client,
    /// Each case may have its own platform.
    admission: Arc<OwnKinds>,
}

/// A response.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

// === impl Server ===

impl Server {
    pub(crate) async fn start(facts: Facts) -> Self {
        let admission = OwnKinds::new(facts);
        let world = TestCluster::bare(admission.clone()).await;
        let client = world.client();
        Self { world, client, admission }
    }

    /// Sets the facts for admission.
    pub(crate) fn know(&self, facts: Facts) {
        self.admission.know(facts);
    }

    pub(crate) async fn namespace(&self, name: &str) {
        self.world.namespace(name).await;
    }

    /// Creates an object in a namespace.
    pub(crate) async fn create(&self, namespace: &str, object: &Value) -> Reply {
        self.ask(Method::POST, &collection(namespace, object), Some(object), "application/json").await
    }

    /// Replaces an object like a user would, without a resourceVersion.
    pub(crate) async fn replace(&self, namespace: &str, object: &Value) -> Reply {
        let path = path(namespace, object);
        let stored = self.ask(Method::GET, &path, None, "").await;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = stored.body["metadata"]["resourceVersion"].clone();
        self.ask(Method::PUT, &path, Some(&object), "application/json").await
    }

    /// Returns the object with this kind and name, in the version of `object`.
    pub(crate) async fn get(&self, namespace: &str, object: &Value) -> Reply {
        self.ask(Method::GET, &path(namespace, object), None, "").await
    }

    /// Patches an object: with a JSON patch if `patch` is a list, and with a merge patch if it is an object.
    pub(crate) async fn patch(&self, namespace: &str, object: &Value, patch: &Value) -> Reply {
        let kind =
            if patch.is_array() { "application/json-patch+json" } else { "application/merge-patch+json" };
        self.ask(Method::PATCH, &path(namespace, object), Some(patch), kind).await
    }

    pub(crate) async fn delete(&self, namespace: &str, object: &Value) -> Reply {
        self.ask(Method::DELETE, &path(namespace, object), None, "").await
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>, content: &str) -> Reply {
        let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
        let mut request = Request::builder().method(method).uri(path);
        if !content.is_empty() {
            request = request.header("content-type", content);
        }
        let reply = self.client.send(request.body(Body::from(body)).unwrap()).await.unwrap();
        let code = reply.status().as_u16();
        let warnings =
            reply.headers().get_all("warning").iter().map(|text| warning(text.to_str().unwrap())).collect();
        let body = reply.into_body().collect_bytes().await.unwrap();
        // Paths that are not served have a plain-text response.
        let body = serde_json::from_slice(&body)
            .unwrap_or_else(|_| json!({"code": code, "message": String::from_utf8_lossy(&body)}));
        Reply { code, body, warnings }
    }
}

/// The text of a `Warning` header: `299 - "text"`.
fn warning(header: &str) -> String {
    let text = header.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"')).unwrap_or(header);
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

fn collection(namespace: &str, object: &Value) -> String {
    let plural = object["kind"].as_str().unwrap().to_lowercase() + "s";
    format!("/apis/{}/namespaces/{namespace}/{plural}", object["apiVersion"].as_str().unwrap())
}

fn path(namespace: &str, object: &Value) -> String {
    format!("{}/{}", collection(namespace, object), object["metadata"]["name"].as_str().unwrap_or_default())
}
