//! The embedded API server with our admission, called over HTTP semantics: status codes and warnings as clients get them.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request};
use kube::{Client, client::Body};
use longboat_admission::{self as admission, Denial, Facts, Subject, Version};
use longboat_apiserver::{
    admission::{Admission, AdmissionAnswer, AdmissionRequest},
    status::ApiError,
};
use longboat_testkit::TestCluster;
use parking_lot::RwLock;
use serde_json::{Value, json};

/// The facts for admission. Each case may have its own platform.
type Shared = Arc<RwLock<Arc<Facts>>>;

struct Hook(Shared);

/// A world in which our own kinds go through our admission.
pub(crate) struct Server {
    world: TestCluster,
    client: Client,
    facts: Shared,
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
        let facts = Arc::new(RwLock::new(Arc::new(facts)));
        let world = TestCluster::bare(Arc::new(Hook(Arc::clone(&facts)))).await;
        let client = world.client();
        Self { world, client, facts }
    }

    /// Sets the facts for admission.
    pub(crate) fn know(&self, facts: Facts) {
        *self.facts.write() = Arc::new(facts);
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

// === impl Hook ===

impl Admission for Hook {
    fn handles(&self, group: &str, resource: &str) -> bool {
        Subject::of(group, resource).is_some()
    }

    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        let facts = Arc::clone(&self.0.read());
        async move {
            let Some((subject, asked)) = asked(&request) else { return AdmissionAnswer::default() };
            match admission::mutate(subject, &asked, &facts) {
                Ok(mutation) => {
                    AdmissionAnswer { refused: None, object: mutation.object, warnings: mutation.warnings }
                }
                Err(denial) => {
                    AdmissionAnswer { refused: Some(refusal(denial)), ..AdmissionAnswer::default() }
                }
            }
        }
        .boxed()
    }

    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        let facts = Arc::clone(&self.0.read());
        async move {
            let Some((subject, asked)) = asked(&request) else { return AdmissionAnswer::default() };
            let answer = admission::validate(subject, &asked, &facts);
            AdmissionAnswer { refused: answer.denial.map(refusal), object: None, warnings: answer.warnings }
        }
        .boxed()
    }
}

fn asked(request: &AdmissionRequest) -> Option<(Subject, admission::Request<'_>)> {
    if request.subresource.is_some() {
        return None;
    }
    let subject = Subject::of(&request.group, &request.resource)?;
    let version = Version::of(&request.version)?;
    let (object, old) = (request.object.as_ref(), request.old.as_ref());
    Some((subject, admission::Request { version, operation: request.operation, object, old }))
}

fn refusal(denial: Denial) -> ApiError {
    let mut error = ApiError::new(denial.code, denial.reason, denial.message);
    error.details = denial.details.as_object().cloned();
    error
}
