//! The model: its weights, its name, its adapters.

use schemars::JsonSchema;

use crate::uri::Uri;
use crate::{schema, wire::go_struct};

go_struct! {
    /// A model, or an adapter of one.
    #[derive(JsonSchema)]
    pub struct ModelSpec {
        /// Address of the model weights. An init container downloads `hf://org/model` and `s3://bucket/path` with the
        /// credentials of the service account; `pvc://claim/path` is mounted read-only; `oci://image` and `oci+native://image`
        /// run or mount an image that holds the model. The model server reads the files from `/mnt/models`. A base config may
        /// set this field instead of the service.
        #[schemars(schema_with = "schema::string", extend("x-required" = true))]
        always pub uri: Uri,

        /// Name that clients put in the `model` field of a request. The model server also answers to
        /// `publishers/<namespace>/models/<name>`. Default: the name of the service.
        pub name: Option<String>,

        /// LoRA adapters, which are served beside the model under their own names, and limits on how many the model server
        /// holds.
        pub lora: Option<LoraSpec>,

        /// Encrypted model files. The storage initializer decrypts them with a key that a key broker releases to attested pods.
        /// Applies to downloaded models (`hf://`, `s3://`); without effect for `pvc://` and `oci://`.
        pub confidential: Option<ConfidentialSpec>,
    }

    /// LoRA adapters, and limits on how many the model server holds.
    #[derive(JsonSchema)]
    pub struct LoraSpec {
        /// The adapters, as objects with a `name`, which clients put in the `model` field of a request, and a `uri` (`hf://`,
        /// `s3://` or `pvc://`). Names must be unique and differ from the name of the model. Needs
        /// `storageInitializer.enabled`.
        #[schemars(schema_with = "schema::any")]
        pub adapters: Vec<ModelSpec>,

        /// Largest rank of any adapter (`--max-lora-rank`), at least 1. If absent, the default of the model server applies (16
        /// in vLLM). Without effect if there are no adapters.
        #[schemars(extend("minimum" = 1))]
        pub max_rank: Option<i32>,

        /// Maximum number of adapters in one batch (`--max-loras`), at least 1. Each takes memory of the accelerator. If
        /// absent, the default of the model server applies (1 in vLLM).
        #[schemars(extend("minimum" = 1))]
        pub max_adapters: Option<i32>,

        /// Maximum number of adapters in main memory (`--max-cpu-loras`), at least 1 and not less than `maxAdapters`. If
        /// absent, the default of the model server applies (`maxAdapters` in vLLM).
        #[schemars(extend("minimum" = 1))]
        pub max_cpu_adapters: Option<i32>,
    }

    /// Encrypted model files.
    #[derive(Eq, JsonSchema)]
    pub struct ConfidentialSpec {
        /// Whether the files are encrypted. If true, the storage initializer attests the pod and decrypts the downloaded files.
        #[schemars(extend("x-required" = true))]
        always pub enabled: bool,

        /// Resource ID of the key at the key broker, as `kbs:///repository/type/tag`. If absent, the storage initializer
        /// chooses the key.
        pub resource_id: Option<String>,
    }
}
