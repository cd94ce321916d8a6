//! KV cache offloading.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::go_struct;

go_struct! {
    /// Tiers to which the KV cache moves when the accelerator is full.
    #[derive(JsonSchema)]
    pub struct KvCacheOffloading {
        /// Main memory for offloaded blocks in each pod, as a quantity such as `20Gi`. It is not added to the memory request of
        /// the container. The start script of the preset applies it (vLLM 0.22 and later), unless the arguments of the model
        /// server already contain `--kv-transfer-config`.
        #[schemars(extend("x-required" = true))]
        always pub cpu: KvQuantity,

        /// Policy that chooses the blocks to evict from a full tier: `lru` evicts the least recently used blocks, `arc` weighs
        /// recency against frequency of use. Default `lru`.
        #[schemars(extend("enum" = ["lru", "arc"], "x-default" = "lru"))]
        pub eviction_policy: String,

        /// Further tiers behind main memory, in the order in which blocks move to them. Needs a `cpu` above zero.
        pub secondary: Vec<SecondaryTier>,
    }

    /// A tier behind main memory.
    #[derive(JsonSchema)]
    pub struct SecondaryTier {
        /// A tier in files below `/mnt/kv-cache-<index>` of the container `main`: exactly one of `emptyDir` and `pvc`. Required:
        /// there is no other kind of tier.
        pub file_system: Option<FileSystemTier>,
    }

    /// A tier in files: exactly one of `emptyDir` and `pvc`.
    #[derive(JsonSchema)]
    pub struct FileSystemTier {
        /// Scratch space of the node, which is deleted with the pod. Excludes `pvc`.
        pub empty_dir: Option<EmptyDirTier>,

        /// A persistent volume: exactly one of `spec` and `ref`. Excludes `emptyDir`.
        pub pvc: Option<PvcTier>,
    }

    /// Scratch space of the node.
    #[derive(JsonSchema)]
    pub struct EmptyDirTier {
        /// Size limit of the volume, as a quantity such as `100Gi`. It is also added to the ephemeral storage request of the
        /// container `main`.
        #[schemars(extend("x-required" = true))]
        always pub size: KvQuantity,
    }

    /// A persistent volume: exactly one of `spec` and `ref`.
    #[derive(JsonSchema)]
    pub struct PvcTier {
        /// Spec of a PersistentVolumeClaim that is created for each pod and deleted with it. Excludes `ref`.
        pub spec: Option<PersistentVolumeClaimSpec>,

        /// An existing PersistentVolumeClaim that all pods mount; its volume must allow this. Excludes `spec`.
        #[serde(rename = "ref")]
        pub ref_: Option<PvcReference>,
    }

    /// An existing PersistentVolumeClaim.
    #[derive(Eq, JsonSchema)]
    pub struct PvcReference {
        /// Name of the PersistentVolumeClaim, in the namespace of the service.
        #[schemars(extend("x-required" = true))]
        always pub name: String,

        /// Folder of the volume to mount. Default: the root of the volume.
        pub path: String,
    }
}

/// A quantity that is `"0"` when absent, as the zero value of Go's type prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct KvQuantity(pub Quantity);

impl Default for KvQuantity {
    fn default() -> Self {
        Self(Quantity("0".to_owned()))
    }
}
