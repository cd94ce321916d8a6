//! A raw HTTP client of the API server, for what kubectl does not show: status codes and causes.

use std::{future::Future, sync::OnceLock};

use longboat_tls::KeyPair;
use reqwest::{Certificate, Client, Identity, Method};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// A client of one server, as one user.
#[derive(Debug)]
pub(crate) struct Api {
    url: String,
    client: Client,
    /// The user that requests impersonate, if any.
    user: Option<String>,
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The texts of the `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// The body, if it is JSON.
    pub(crate) body: Value,
}

/// One entry of `details.causes` of a `Status` object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cause {
    pub(crate) reason: String,
    pub(crate) field: String,
    pub(crate) message: String,
}

// === impl Api ===

impl Api {
    pub(crate) fn new(url: &str, ca_pem: &str, user: &KeyPair) -> Self {
        longboat_tls::install_default_provider();
        let identity = format!("{}{}", user.certificate_pem, user.key_pem);
        let client = Client::builder()
            .no_proxy()
            .tls_certs_only([Certificate::from_pem(ca_pem.as_bytes()).unwrap()])
            .identity(Identity::from_pem(identity.as_bytes()).unwrap())
            .build()
            .unwrap();
        Self::by(url, client)
    }

    /// Returns a client of the server at `url` that sends requests through `client`.
    pub(crate) fn by(url: &str, client: Client) -> Self {
        Self { url: url.to_owned(), client, user: None }
    }

    /// Returns a client that impersonates the user `name`, which this client's own user must have the right to do.
    pub(crate) fn as_user(&self, name: &str) -> Self {
        Self { url: self.url.clone(), client: self.client.clone(), user: Some(name.to_owned()) }
    }

    /// Returns a client of a server that does not authenticate.
    pub(crate) fn plain(url: &str) -> Self {
        longboat_tls::install_default_provider();
        Self::by(url, Client::builder().no_proxy().build().unwrap())
    }

    /// Gets a path with an `Accept` header.
    pub(crate) fn get_as(&self, path: &str, accept: &str) -> Answer {
        let request = self.client.get(format!("{}{path}", self.url)).header("Accept", accept);
        block(async { read(request.send().await.unwrap()).await })
    }

    /// Gets a path. Returns `None` if the server does not answer.
    pub(crate) fn try_get(&self, path: &str) -> Option<Answer> {
        block(async { Some(read(self.client.get(format!("{}{path}", self.url)).send().await.ok()?).await) })
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", String::new())
    }

    pub(crate) fn post(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", object.to_string())
    }

    pub(crate) fn put(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::PUT, path, "application/json", object.to_string())
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "application/json", String::new())
    }

    /// Sends a server-side apply. `path` includes the query.
    pub(crate) fn apply(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::PATCH, path, "application/apply-patch+yaml", object.to_string())
    }

    pub(crate) fn merge(&self, path: &str, change: &Value) -> Answer {
        self.send(Method::PATCH, path, "application/merge-patch+json", change.to_string())
    }

    /// Sends a JSON patch.
    pub(crate) fn patch(&self, path: &str, change: &Value) -> Answer {
        self.send(Method::PATCH, path, "application/json-patch+json", change.to_string())
    }

    /// Creates a namespace.
    pub(crate) fn make_namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.post("/api/v1/namespaces", &object).ok();
    }

    /// Sends a request with a body of this content type.
    pub(crate) fn send(&self, method: Method, path: &str, content_type: &str, body: String) -> Answer {
        self.try_send(method, path, content_type, body).expect("an answer")
    }

    /// Like [`Api::send`]. Returns `None` if there is no response: some requests make the server drop the connection.
    pub(crate) fn try_send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: String,
    ) -> Option<Answer> {
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.url))
            .header("Content-Type", content_type)
            .header("Accept", "application/json")
            .body(body);
        if let Some(user) = &self.user {
            request = request.header("Impersonate-User", user);
        }
        block(async { Some(read(request.send().await.ok()?).await) })
    }
}

// === impl Answer ===

impl Answer {
    /// Returns the body. Panics if the request failed.
    pub(crate) fn ok(self) -> Value {
        assert!(self.status < 300, "{}: {:#}", self.status, self.body);
        self.body
    }

    /// The message of a failed request.
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// Returns the causes, sorted, because the server's order varies.
    pub(crate) fn causes(&self) -> Vec<Cause> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes = self.body["details"]["causes"].as_array().into_iter().flatten();
        let mut causes: Vec<Cause> = causes
            .map(|cause| Cause {
                reason: text(&cause["reason"]),
                field: text(&cause["field"]),
                message: text(&cause["message"]),
            })
            .collect();
        causes.sort();
        causes
    }
}

/// Returns the status code of a plain GET, or `None` if there is no response.
pub(crate) fn status_of(url: &str) -> Option<u16> {
    block(async {
        Some(Client::builder().no_proxy().build().ok()?.get(url).send().await.ok()?.status().as_u16())
    })
}

/// Returns the body of a plain GET, or `None` if there is no response.
pub(crate) fn text_of(url: &str) -> Option<String> {
    block(async { Client::builder().no_proxy().build().ok()?.get(url).send().await.ok()?.text().await.ok() })
}

/// Runs a future on a shared runtime.
pub(crate) fn block<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().enable_all().build().unwrap()).block_on(future)
}

async fn read(response: reqwest::Response) -> Answer {
    let status = response.status().as_u16();
    let warnings = response.headers().get_all("Warning").iter();
    // 299 - "text"
    let warnings = warnings
        .filter_map(|value| value.to_str().ok()?.splitn(3, ' ').nth(2))
        .filter_map(|text| Some(text.strip_prefix('"')?.strip_suffix('"')?.replace("\\\"", "\"")))
        .collect();
    let text = response.text().await.unwrap_or_default();
    Answer { status, warnings, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}
