//! vLLM's API for adapters, which our own engine and the simulator have too.

use std::{
    ffi::OsStr,
    net::SocketAddr,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use longboat_tls::innermost;
use reqwest::{Client, RequestBuilder};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{FetchError, http};

/// How long the engine may take to list its models.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the engine may take to load an adapter, between two batches and from a slow disk.
const LOAD_TIMEOUT: Duration = Duration::from_mins(5);
/// The most bytes of a response that are read.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
/// The most characters of the engine's words that are reported.
pub const MAX_WORDS: usize = 600;

/// Why the engine did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nothing listens.
    #[error("cannot reach the engine: {0}")]
    Down(String),
    /// It did not answer.
    #[error("the engine did not answer: {0}")]
    Silent(String),
    /// It refused.
    #[error("the engine answered with status {status}: {words}")]
    Refused { status: u16, words: String },
}

/// The engine of the pod.
pub(super) struct Engine {
    client: Client,
    url: String,
    /// The API key, if the engine asks for one.
    key: Option<String>,
}

/// A model or an adapter that the engine serves.
#[derive(Debug, Deserialize)]
pub struct ServedModel {
    pub(super) id: String,
    /// The path from which it was loaded.
    #[serde(default)]
    root: Option<PathBuf>,
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<ServedModel>,
}

// === impl ServedModel ===

impl ServedModel {
    pub(super) fn is(&self, id: &str, path: &Path) -> bool {
        self.id == id && self.root.as_deref() == Some(path)
    }

    /// Returns the name of its folder, if it was loaded from a folder in `root`.
    pub fn folder_in(&self, root: &Path) -> Option<&OsStr> {
        self.root.as_deref()?.strip_prefix(root).ok()?.components().next().map(Component::as_os_str)
    }
}

// === impl Engine ===

impl Engine {
    pub(super) fn new(address: SocketAddr, tls: bool, key: Option<String>) -> Result<Self, FetchError> {
        let client = http::client(longboat_tls::insecure_client_config(&[]), |builder| {
            builder.no_proxy().user_agent(concat!("longboat-loader/", env!("CARGO_PKG_VERSION")))
        })?;
        let scheme = if tls { "https" } else { "http" };
        Ok(Self { client, url: format!("{scheme}://{address}"), key })
    }

    pub(super) async fn models(&self) -> Result<Vec<ServedModel>, EngineError> {
        let request = self.client.get(format!("{}/v1/models", self.url)).timeout(LIST_TIMEOUT);
        let body = self.send(request).await?;
        parse_models(&body)
    }

    pub(super) async fn load(&self, name: &str, path: &Path, replaces: bool) -> Result<(), EngineError> {
        let mut fields = json!({"lora_name": name, "lora_path": path});
        if replaces {
            fields["load_inplace"] = json!(true);
        }
        self.post("/v1/load_lora_adapter", &fields).await
    }

    pub(super) async fn unload(&self, name: &str) -> Result<(), EngineError> {
        self.post("/v1/unload_lora_adapter", &json!({"lora_name": name})).await
    }

    async fn post(&self, path: &str, fields: &Value) -> Result<(), EngineError> {
        let request = self.client.post(format!("{}{path}", self.url)).json(fields).timeout(LOAD_TIMEOUT);
        self.send(request).await.map(drop)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Vec<u8>, EngineError> {
        let request = self.key.iter().fold(request, RequestBuilder::bearer_auth);
        let mut response = request.send().await.map_err(|error| {
            if error.is_connect() {
                EngineError::Down(innermost(&error))
            } else {
                EngineError::Silent(innermost(&error))
            }
        })?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(piece) =
            response.chunk().await.map_err(|error| EngineError::Silent(innermost(&error)))?
        {
            body.extend_from_slice(&piece);
            if body.len() > MAX_RESPONSE_BYTES {
                break;
            }
        }
        if status.is_success() {
            return Ok(body);
        }
        Err(EngineError::Refused { status: status.as_u16(), words: words(&body) })
    }
}

/// Parses the engine's list of models.
pub fn parse_models(body: &[u8]) -> Result<Vec<ServedModel>, EngineError> {
    let list: ModelList = serde_json::from_slice(body)
        .map_err(|error| EngineError::Silent(format!("its list of models cannot be read: {error}")))?;
    Ok(list.data)
}

/// The engine's message, in the forms that vLLM's releases and its web framework have.
pub fn words(body: &[u8]) -> String {
    let parsed: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = [&parsed["error"]["message"], &parsed["message"], &parsed["detail"]]
        .into_iter()
        .find_map(Value::as_str);
    let text = message.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    text.trim().chars().take(MAX_WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_engine_are_its_message_in_any_form() {
        for (body, expected) in [
            (r#"{"error":{"message":"no such file","code":404}}"#, "no such file"),
            (r#"{"object":"error","message":"rank 64 > 16"}"#, "rank 64 > 16"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            ("  plain \n", "plain"),
        ] {
            assert_eq!(words(body.as_bytes()), expected);
        }
        assert_eq!(words("é".repeat(2000).as_bytes()).chars().count(), MAX_WORDS);
    }

    #[test]
    fn only_what_was_loaded_from_the_folder_is_the_loaders() {
        let model = |root: &str| ServedModel { id: "a".into(), root: Some(root.into()) };
        let folder = |root: &str| model(root).folder_in(Path::new("/mnt/adapters")).map(OsStr::to_owned);
        assert_eq!(folder("/mnt/adapters/a-1"), Some("a-1".into()));
        for other in ["/mnt/adapters", "/mnt/models", "/mnt/adapters-2/a", "org/a"] {
            assert_eq!(folder(other), None, "{other}");
        }
    }
}
