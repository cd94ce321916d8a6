//! `serving.kserve.io/v1alpha2`: the storage version, and the hub every other version converts through.

mod kv_cache;
mod model;
mod router;
mod scaling;
mod spec;
mod status;

pub use kv_cache::{
    EmptyDirTier, FileSystemTier, KvCacheOffloading, KvQuantity, PvcReference, PvcTier, SecondaryTier,
};
pub use model::{ConfidentialSpec, LoraSpec, ModelSpec};
pub use router::{
    ConfigMapKeyReference, GatewayReference, GatewaySpec, HttpRouteSource, InferencePoolSource, IngressSpec,
    RouteSpec, RouterSpec, SchedulerConfigSpec, SchedulerSpec, TokenizerSpec, UntypedObjectReference,
};
pub use scaling::{
    DirectKedaSpec, KedaAdvanced, KedaAuthenticationRef, KedaFallback, KedaHpaConfig, KedaScalingModifiers,
    KedaSettings, KedaTrigger, ScalingSpec, WvaHpa, WvaSpec,
};
pub use spec::{
    LLMInferenceServiceSpec, LocalReference, ParallelismSpec, RolloutStrategy, StorageInitializerSpec,
    TracingSpec, WorkloadSpec,
};
pub use status::{
    Address, AppliedConfig, ConfigSource, GatewayStatusReference, GroupMember, GroupStatus,
    LLMInferenceServiceConfigStatus, LLMInferenceServiceStatus, ModelReference, ObjectReference,
    RouterStatus, ScaledReference, SchedulerStatus, ServiceAddress, ServiceReference, TypedReference,
    WorkloadsStatus,
};

use crate::resource::kind;

/// API group of both kinds.
pub const GROUP: &str = "serving.kserve.io";

/// `apiVersion` of both kinds.
pub const API_VERSION: &str = "serving.kserve.io/v1alpha2";

kind! {
    /// A served model.
    pub struct LLMInferenceService: "serving.kserve.io", "v1alpha2", "llminferenceservices", Namespaced {
        spec: LLMInferenceServiceSpec,
        status: LLMInferenceServiceStatus,
    }
}

kind! {
    /// A partial spec that services inherit: a preset of the platform, or a config that users name in `baseRefs`.
    pub struct LLMInferenceServiceConfig: "serving.kserve.io", "v1alpha2", "llminferenceserviceconfigs", Namespaced {
        spec: LLMInferenceServiceSpec,
        status: LLMInferenceServiceConfigStatus,
    }
}
