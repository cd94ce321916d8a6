//! The model: its weights, its name, its adapters (contract 01 §2.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::uri::Uri;
use crate::{schema, wire};

/// A model, or an adapter of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelSpec {
    /// Where the weights are: `hf://org/model`, `s3://bucket/path`, `pvc://claim/path` or `oci://image`.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::string", extend("x-required" = true))]
    pub uri: Uri,

    /// The name clients put in the `model` field of a request. Defaults to the name of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// LoRA adapters served beside the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSpec>,

    /// Decrypt the model files with a key released by a key broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidential: Option<ConfidentialSpec>,
}

/// LoRA adapters, and how many the server may hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoraSpec {
    /// The adapters; each has a unique `name` and a `uri` (hf, s3 or pvc).
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::any")]
    pub adapters: Vec<ModelSpec>,

    /// Largest rank of any adapter. Absent leaves the default of the server (16 in vLLM).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub max_rank: Option<i32>,

    /// Adapters that can be used at the same time. Absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub max_adapters: Option<i32>,

    /// Adapters kept in main memory. Absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub max_cpu_adapters: Option<i32>,
}

/// Encrypted model files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfidentialSpec {
    /// Fetch with the confidential initializer, which decrypts.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub enabled: bool,

    /// The key at the key broker: `kbs:///repository/type/tag`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_id: Option<String>,
}
