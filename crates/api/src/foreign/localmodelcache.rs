//! LocalModelCache and LocalModelNamespaceCache of KServe, `serving.kserve.io/v1alpha1`: models that are cached on nodes, or on a
//! shared claim.

use serde::{Deserialize, Serialize};

use crate::resource::kind;
use crate::wire::go_struct;

kind! {
    /// A LocalModelCache: a model that services of all namespaces may use.
    pub struct LocalModelCache: "serving.kserve.io", "v1alpha1", "localmodelcaches", Cluster {
        spec: LocalModelCacheSpec,
        status: LocalModelCacheStatus,
    }
}

kind! {
    /// A LocalModelNamespaceCache: a model that services of its namespace may use.
    pub struct LocalModelNamespaceCache: "serving.kserve.io", "v1alpha1", "localmodelnamespacecaches", Namespaced {
        spec: LocalModelCacheSpec,
        status: LocalModelCacheStatus,
    }
}

go_struct! {
    /// A model and where it is cached.
    #[derive(Eq)]
    pub struct LocalModelCacheSpec {
        /// The address from which the model was downloaded.
        always pub source_model_uri: String,

        /// The groups of nodes that have the model. Each has a claim `CACHE-GROUP`.
        pub node_groups: Vec<String>,

        /// The claim that has the model, instead of nodes. Only in a LocalModelNamespaceCache.
        pub pvc_ref: Option<String>,
    }

    /// What was observed of a cache.
    #[derive(Eq)]
    pub struct LocalModelCacheStatus {
        /// Ready, of a cache on a shared claim.
        pub conditions: Vec<LocalModelCacheCondition>,
    }
}

/// A condition of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalModelCacheCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// True, False or Unknown.
    pub status: String,
}

// === impl LocalModelCacheSpec ===

impl LocalModelCacheSpec {
    /// The shared claim that has the model, if there is one.
    pub fn shared_claim(&self) -> Option<&str> {
        self.pvc_ref.as_deref().filter(|claim| !claim.is_empty())
    }
}

// === impl LocalModelCacheStatus ===

impl LocalModelCacheStatus {
    /// Whether the whole model is in the cache.
    pub fn is_ready(&self) -> bool {
        self.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    }
}
