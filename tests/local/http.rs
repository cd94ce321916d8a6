//! A blocking HTTP client for tests.

use std::{collections::BTreeMap, future::Future, sync::OnceLock};

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

// === impl Answer ===

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The name of the pod that answered.
    pub(crate) fn pod(&self) -> &str {
        self.headers.get("x-inference-pod").unwrap_or_else(|| panic!("no x-inference-pod: {self:?}"))
    }
}

/// Runs a future on a shared runtime.
pub(crate) fn block<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().enable_all().build().unwrap()).block_on(future)
}

/// Returns a client that ignores proxies of the environment.
pub(crate) fn client() -> reqwest::Client {
    longboat_tls::install_default_provider();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub(crate) fn try_get(url: &str) -> Option<String> {
    block(async { client().get(url).send().await.ok()?.text().await.ok() })
}

pub(crate) fn get(url: &str) -> Answer {
    block(async { read(client().get(url).send().await.unwrap()).await })
}

pub(crate) fn post(url: &str, body: &Value) -> Answer {
    block(async { read(client().post(url).json(body).send().await.unwrap()).await })
}

/// Reads a response with its whole body.
pub(crate) async fn read(response: reqwest::Response) -> Answer {
    let status = response.status().as_u16();
    let text = |value: &reqwest::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let headers = response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    Answer { status, headers, body: response.text().await.unwrap_or_else(|error| format!("cut: {error}")) }
}
