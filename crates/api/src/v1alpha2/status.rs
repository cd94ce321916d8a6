//! What the controller reports.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::foreign::reference::BackendObjectReference;
use crate::{crd, schema, wire::go_struct};

go_struct! {
    /// Observed state of a service.
    #[derive(JsonSchema)]
    pub struct LLMInferenceServiceStatus {
        /// URL for requests: an address outside of the cluster if there is one, preferably with the path of the service. Absent
        /// while the service is stopped.
        pub url: Option<String>,

        /// Generation of the spec that this status describes.
        pub observed_generation: i64,

        /// Conditions of the service, sorted by type. `Ready` summarizes `PresetsCombined`, `WorkloadsReady` and `RouterReady`.
        pub conditions: Vec<Condition>,

        /// Names of the presets that this service was created with, which it keeps when the platform is upgraded, and other facts
        /// that tools read, such as the kind of accelerator.
        pub annotations: BTreeMap<String, String>,

        /// Not used, for compatibility only; see `addresses`.
        pub address: Option<Address>,

        /// Every address of the service, and the models reachable there.
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub addresses: Vec<ServiceAddress>,

        /// Gateways, routes, pool and picker in use.
        pub router: Option<RouterStatus>,

        /// Workloads and Service of the service; absent while it is stopped.
        pub workloads: Option<WorkloadsStatus>,

        /// Configs that were merged, lowest precedence first.
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub applied_configs: Vec<AppliedConfig>,
    }

    /// An address of the service.
    #[derive(Eq, JsonSchema)]
    pub struct Address {
        /// Kind of the address, for instance `gateway-external`.
        pub name: Option<String>,

        /// URL of the service at this address.
        pub url: Option<String>,

        /// Certificates to trust at this address, as PEM.
        #[serde(rename = "CACerts")]
        pub ca_certs: Option<String>,

        /// Audience for tokens sent to this address.
        pub audience: Option<String>,
    }

    /// An address of the service, and the models that can be used there.
    #[derive(Eq, JsonSchema)]
    pub struct ServiceAddress {
        /// Kind of the address, for instance `gateway-external`.
        pub name: Option<String>,

        /// URL of the service at this address.
        pub url: Option<String>,

        /// Certificates to trust at this address, as PEM.
        #[serde(rename = "CACerts")]
        pub ca_certs: Option<String>,

        /// Audience for tokens sent to this address.
        pub audience: Option<String>,

        /// The Gateway that provides the address. Absent for addresses inside the cluster.
        pub origin: Option<ObjectReference>,

        /// Model names that can be used at this address.
        pub models: Vec<ModelReference>,
    }

    /// A model that can be used at an address.
    #[derive(Eq, JsonSchema)]
    pub struct ModelReference {
        /// Value for the `model` field of a request.
        #[schemars(extend("x-required" = true))]
        always pub name: String,
    }

    /// An object by group, kind and name.
    #[derive(Eq, PartialOrd, Ord, JsonSchema)]
    pub struct ObjectReference {
        /// API group; empty for the core group.
        #[schemars(schema_with = "schema::group", extend("x-required" = true))]
        always pub group: String,

        /// Kind of the object, such as `Gateway` or `Deployment`.
        #[schemars(schema_with = "schema::kind", extend("x-required" = true))]
        always pub kind: String,

        /// Name of the object.
        #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
        always pub name: String,

        /// Namespace of the object. Absent means that of the service.
        #[schemars(schema_with = "schema::namespace")]
        pub namespace: Option<String>,
    }

    /// Gateways, routes, pool and picker in use.
    #[derive(Eq, JsonSchema)]
    pub struct RouterStatus {
        /// Gateways that the routes attach to.
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub gateways: Vec<GatewayStatusReference>,

        /// The InferencePool and the picker in use.
        pub scheduler: Option<SchedulerStatus>,

        /// The routing group that the service is in, and its members.
        pub group: Option<GroupStatus>,
    }

    /// A Gateway, and the routes that attach to it.
    #[derive(Eq, JsonSchema)]
    pub struct GatewayStatusReference {
        /// API group; empty for the core group.
        #[schemars(schema_with = "schema::group", extend("x-required" = true))]
        always pub group: String,

        /// Kind of the object, such as `Gateway` or `Deployment`.
        #[schemars(schema_with = "schema::kind", extend("x-required" = true))]
        always pub kind: String,

        /// Name of the object.
        #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
        always pub name: String,

        /// Namespace of the object. Absent means that of the service.
        #[schemars(schema_with = "schema::namespace")]
        pub namespace: Option<String>,

        /// Listeners that the routes name. Absent means all listeners.
        #[schemars(schema_with = "schema::listener_names")]
        pub listeners: Vec<String>,

        /// Routes that attach to the Gateway.
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub http_routes: Vec<ObjectReference>,
    }

    /// Pool and picker in use.
    #[derive(Eq, JsonSchema)]
    pub struct SchedulerStatus {
        /// The InferencePool that the route leads to.
        pub inference_pool: Option<ObjectReference>,

        /// The Service in front of the picker.
        pub service: Option<ObjectReference>,
    }

    /// A routing group.
    #[derive(Eq, JsonSchema)]
    pub struct GroupStatus {
        /// Name of the group, as in `spec.router.route.group`.
        #[schemars(extend("x-required" = true))]
        always pub name: String,

        /// Members of the group that serve the same models and are routable or stopped, sorted by name. The service is among
        /// them.
        #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
        pub members: Vec<GroupMember>,
    }

    /// A member of a routing group.
    #[derive(Eq, JsonSchema)]
    pub struct GroupMember {
        /// Name of the service that is a member.
        #[schemars(extend("x-required" = true))]
        always pub name: String,

        /// Weight of the member: its share of the traffic, in proportion to the other members.
        #[schemars(extend("x-required" = true))]
        always pub weight: i32,

        /// Whether the service is stopped and gets no traffic.
        pub stopped: bool,

        /// Backend for the traffic of the member.
        #[schemars(schema_with = "crd::backend_reference")]
        pub backend_ref: Option<BackendObjectReference>,
    }

    /// Workloads of a service.
    #[derive(Eq, JsonSchema)]
    pub struct WorkloadsStatus {
        /// The decode workload, or the only one.
        pub primary: Option<ScaledReference>,

        /// The prefill workload, if prefill and decode are separate.
        pub prefill: Option<ScaledReference>,

        /// The Service in front of the pods of all workloads.
        pub service: Option<TypedReference>,

        /// The Deployment of the picker, if the picker is managed.
        pub scheduler: Option<ScaledReference>,
    }

    /// An object of the same namespace.
    #[derive(Eq, JsonSchema)]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub struct TypedReference {
        /// API group; absent for the core group.
        pub api_group: Option<String>,

        /// Kind of the object, such as `Gateway` or `Deployment`.
        #[schemars(extend("x-required" = true))]
        always pub kind: String,

        /// Name of the object.
        #[schemars(extend("x-required" = true))]
        always pub name: String,
    }

    /// A workload of the same namespace, and the number of its ready replicas.
    #[derive(Eq, JsonSchema)]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub struct ScaledReference {
        /// API group; absent for the core group.
        pub api_group: Option<String>,

        /// Kind of the object, such as `Gateway` or `Deployment`.
        #[schemars(extend("x-required" = true))]
        always pub kind: String,

        /// Name of the object.
        #[schemars(extend("x-required" = true))]
        always pub name: String,

        /// Number of replicas (or groups of pods) that are ready.
        pub ready_replicas: Option<i32>,
    }

    /// A config that was merged.
    #[derive(Eq, JsonSchema)]
    pub struct AppliedConfig {
        /// Name of the config or runtime that was merged.
        #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
        always pub name: String,

        /// Namespace in which the config or runtime was found. Absent for a ClusterServingRuntime.
        #[schemars(schema_with = "schema::namespace")]
        pub namespace: String,

        /// Why the config was merged: `Preset`, chosen for the topology of the service; `UserRef`, named in `baseRefs`; or
        /// `ServingRuntime`, named in `runtime`.
        #[schemars(extend("enum" = ["Preset", "UserRef", "ServingRuntime"], "x-required" = true))]
        always pub source: ConfigSource,
    }
}

/// Why a config was merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfigSource {
    /// Chosen by the controller for the topology of the service.
    #[default]
    Preset,
    /// Named in `spec.baseRefs`.
    UserRef,
    /// Named in `spec.runtime`.
    ServingRuntime,
}

impl ConfigSource {
    /// The value on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Preset => "Preset",
            Self::UserRef => "UserRef",
            Self::ServingRuntime => "ServingRuntime",
        }
    }
}

impl JsonSchema for ConfigSource {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ConfigSource".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schema::string(generator)
    }
}

go_struct! {
    /// Observed state of a config.
    #[derive(JsonSchema)]
    pub struct LLMInferenceServiceConfigStatus {
        /// Generation of the spec that this status describes.
        pub observed_generation: i64,

        /// Whether the config is in use (`ConfigInUse`); `Ready` is always True.
        pub conditions: Vec<Condition>,

        /// Not used, for compatibility only.
        pub annotations: BTreeMap<String, String>,

        /// Services that use the config, sorted by namespace and name. The config cannot be deleted while there are any.
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub referenced_by: Vec<ServiceReference>,
    }

    /// A service that uses a config.
    #[derive(Eq, PartialOrd, Ord, JsonSchema)]
    pub struct ServiceReference {
        /// Name of the service that uses the config.
        #[schemars(schema_with = "schema::object_name")]
        pub name: String,

        /// Namespace of the service that uses the config.
        #[schemars(schema_with = "schema::namespace")]
        pub namespace: String,
    }
}
