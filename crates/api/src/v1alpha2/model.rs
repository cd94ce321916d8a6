//! The model: its weights, its name, its adapters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::uri::Uri;
use crate::{schema, wire};

/// A model, or an adapter of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelSpec {
    /// Where the weights are. `hf://org/model` and `s3://bucket/path` are fetched by an init container, with the credentials
    /// of the service account; `pvc://claim/path` is mounted read-only; `oci://image` and `oci+native://image` run or mount
    /// an image that holds the model. The server finds the files at `/mnt/models`. May be left to a base config.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::string", extend("x-required" = true))]
    pub uri: Uri,

    /// The name that clients put in the `model` field of a request; the server also answers to
    /// `publishers/<namespace>/models/<name>`. Defaults to the name of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// LoRA adapters that are served beside the model, each under a name of its own, and how many the server may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSpec>,

    /// Encrypted model files, which the initializer decrypts with a key that a key broker releases to attested pods.
    /// For models that are fetched (`hf://`, `s3://`); without effect for `pvc://` and `oci://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidential: Option<ConfidentialSpec>,
}

/// LoRA adapters, and how many the server may hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoraSpec {
    /// The adapters: a list of objects with `name`, which clients put in the `model` field of a request and which must be
    /// unique and differ from the name of the model, and `uri` (`hf://`, `s3://` or `pvc://`). Needs
    /// `storageInitializer.enabled`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::any")]
    pub adapters: Vec<ModelSpec>,

    /// Largest rank of any adapter (`--max-lora-rank`), at least 1. Absent leaves the default of the server (16 in vLLM).
    /// Without effect if there are no adapters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub max_rank: Option<i32>,

    /// Adapters that can be used in one batch (`--max-loras`), at least 1; each takes memory of the accelerator. Absent
    /// leaves the default of the server (1 in vLLM).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub max_adapters: Option<i32>,

    /// Adapters that are kept in main memory (`--max-cpu-loras`), at least 1 and not less than `maxAdapters`. Absent
    /// leaves the default of the server (`maxAdapters` in vLLM).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1))]
    pub max_cpu_adapters: Option<i32>,
}

/// Encrypted model files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfidentialSpec {
    /// Whether the files are encrypted: true has the initializer attest the pod and decrypt what it fetches.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub enabled: bool,

    /// The key at the key broker, as `kbs:///repository/type/tag`. Absent leaves the choice to the initializer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_id: Option<String>,
}
