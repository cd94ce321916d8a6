//! LoRA adapters that are loaded while an engine runs: the list that the controller writes for the loader of each pod, and the loader's
//! report.

use serde::{Deserialize, Serialize};

/// The port at which the loader of a pod serves its report, and [`READY_PATH`].
pub const LOADER_PORT: u16 = 9419;
/// The path that responds with 200 when the loader has tried every adapter since the engine started.
pub const READY_PATH: &str = "/ready";
/// The variable of the loader with the API key of the engine, if the engine asks for one.
pub const ENGINE_KEY_VARIABLE: &str = "LONGBOAT_ENGINE_KEY";
/// The key of the list in its ConfigMap, which is the name of its file.
pub const LIST_FILE: &str = "adapters.json";
/// The most bytes of a list. A ConfigMap has at most 1 MiB.
pub const MAX_LIST_BYTES: usize = 1 << 20;
/// The most bytes of a report that are read.
pub const MAX_REPORT_BYTES: usize = 256 << 10;

/// An adapter that every engine of a service should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedAdapter {
    /// The name in the spec of the service.
    pub name: String,
    /// The models that select it.
    pub models: Vec<String>,
    /// The address of its weights.
    pub uri: String,
    /// The name of its folder, which another address changes.
    pub folder: String,
}

/// What a loader says about an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterReport {
    /// The name in the spec of the service.
    pub name: String,
    /// The name of its folder.
    pub folder: String,
    /// Whether the engine has it.
    pub loaded: bool,
    /// Why the last attempt failed, in the words of the engine or of the download.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Parses a report. Returns `None` if the text is something else or too long.
pub fn parse_report(text: &[u8]) -> Option<Vec<AdapterReport>> {
    serde_json::from_slice(text).ok().filter(|_| text.len() <= MAX_REPORT_BYTES)
}
