//! What vLLM takes, as a vLLM printed it (`tests/vllm/options.rs` keeps the recording true).

pub mod flags;
pub mod newest;
pub mod schema;
pub mod variables;

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use self::{flags::Flag, schema::Schema};

const TEXT: &str = include_str!("../../../../tests/vllm/options.json");

static RECORDING: LazyLock<Recording> = LazyLock::new(|| serde_json::from_str(TEXT).unwrap_or_default());

#[derive(Default, Deserialize)]
struct Recording {
    connectors: Vec<String>,
    version: String,
    flags: BTreeMap<String, Flag>,
    variables: BTreeMap<String, Schema>,
}

/// The version of vLLM of which the flags and variables are.
pub fn version() -> &'static str {
    &RECORDING.version
}

/// The names of the connectors of KV caches that it has without plug-ins.
pub fn connectors() -> impl Iterator<Item = &'static str> {
    RECORDING.connectors.iter().map(String::as_str)
}
