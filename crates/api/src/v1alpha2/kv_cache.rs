//! KV cache offloading.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire;

/// Tiers to which the KV cache moves when the accelerator is full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct KvCacheOffloading {
    /// Main memory of each pod for offloaded blocks, as a quantity: `20Gi`. It is not added to the memory request of the
    /// container. Takes effect through the start script of the preset (vLLM 0.22 and later), unless the arguments of the
    /// model server have `--kv-transfer-config` already.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub cpu: KvQuantity,

    /// Which blocks leave a full tier first: `lru`, those not used for the longest time, or `arc`, which weighs how often
    /// against how recently a block was used. Default `lru`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("enum" = ["lru", "arc"], "x-default" = "lru"))]
    pub eviction_policy: String,

    /// Further tiers behind main memory, in the order in which blocks move on. Needs a `cpu` above zero.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub secondary: Vec<SecondaryTier>,
}

/// A tier behind main memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SecondaryTier {
    /// A tier in files below `/mnt/kv-cache-<index>` of the container `main`: exactly one of `emptyDir` and `pvc`. Required:
    /// there is no other kind of tier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystemTier>,
}

/// A tier in files: exactly one of `emptyDir` and `pvc`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSystemTier {
    /// Scratch space of the node, gone with the pod. Excludes `pvc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDirTier>,

    /// A persistent volume: exactly one of `spec` and `ref`. Excludes `emptyDir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc: Option<PvcTier>,
}

/// Scratch space of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EmptyDirTier {
    /// Limit of the volume, as a quantity: `100Gi`. Also added to the ephemeral storage that the container `main` requests.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub size: KvQuantity,
}

/// A persistent volume: exactly one of `spec` and `ref`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PvcTier {
    /// Spec of a claim that is made for each pod and goes with it. Excludes `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<PersistentVolumeClaimSpec>,

    /// A claim that exists and is mounted by all pods: its volume must allow that. Excludes `spec`.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<PvcReference>,
}

/// An existing claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PvcReference {
    /// Name of the claim, in the namespace of the service.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,

    /// Folder inside the volume to mount. Absent means its root.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub path: String,
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
