//! The API server over plain HTTP, for what kubectl does not show: codes and causes.

use std::{future::Future, sync::OnceLock};

use longboat_tls::KeyPair;
use reqwest::{Certificate, Client, Identity, Method};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// A client of one server, as one user.
#[derive(Debug)]
pub(crate) struct Api {
    url: String,
    client: Client,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The body, if it is JSON.
    pub(crate) body: Value,
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
        Self { url: url.to_owned(), client }
    }

    /// An answer, if the server answers at all.
    pub(crate) fn try_get(&self, path: &str) -> Option<Answer> {
        block(async { Some(read(self.client.get(format!("{}{path}", self.url)).send().await.ok()?).await) })
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", String::new())
    }

    pub(crate) fn post(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", object.to_string())
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "application/json", String::new())
    }

    fn send(&self, method: Method, path: &str, content_type: &str, body: String) -> Answer {
        let request = self
            .client
            .request(method, format!("{}{path}", self.url))
            .header("Content-Type", content_type)
            .header("Accept", "application/json")
            .body(body);
        block(async { read(request.send().await.unwrap()).await })
    }
}

// === impl Answer ===

impl Answer {
    /// The body of what must have gone well.
    pub(crate) fn ok(self) -> Value {
        assert!(self.status < 300, "{}: {:#}", self.status, self.body);
        self.body
    }
}

/// Runs what is asynchronous.
pub(crate) fn block<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().enable_all().build().unwrap()).block_on(future)
}

async fn read(response: reqwest::Response) -> Answer {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap_or_default();
    Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}
