//! What the controller reports.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::conditions::Condition;
use crate::foreign::reference::BackendObjectReference;
use crate::{crd, schema, wire};

/// Observed state of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LLMInferenceServiceStatus {
    /// URL for requests: an address outside of the cluster if there is one, preferably with the path of the service. Absent
    /// while the service is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,

    /// Generation of the spec that this status describes.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub observed_generation: i64,

    /// Conditions of the service, sorted by type. `Ready` summarizes `PresetsCombined`, `WorkloadsReady` and `RouterReady`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,

    /// Names of the presets that this service was created with, which it keeps when the platform is upgraded, and other facts
    /// that tools read, such as the kind of accelerator.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub annotations: BTreeMap<String, String>,

    /// Not used, for compatibility only; see `addresses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,

    /// Every address of the service, and the models reachable there.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<ServiceAddress>,

    /// Gateways, routes, pool and picker in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterStatus>,

    /// Workloads and Service of the service; absent while it is stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workloads: Option<WorkloadsStatus>,

    /// Configs that were merged, lowest precedence first.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub applied_configs: Vec<AppliedConfig>,
}

/// An address of the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Address {
    /// Kind of the address, for instance `gateway-external`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// URL of the service at this address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,

    /// Certificates to trust at this address, as PEM.
    #[serde(rename = "CACerts", skip_serializing_if = "Option::is_none")]
    pub ca_certs: Option<String>,

    /// Audience for tokens sent to this address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
}

/// An address of the service, and the models that can be used there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceAddress {
    /// URL and properties of the address.
    #[serde(flatten)]
    pub address: Address,

    /// The Gateway that provides the address. Absent for addresses inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<ObjectReference>,

    /// Model names that can be used at this address.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub models: Vec<ModelReference>,
}

/// Reads all fields at once: a derived reader would buffer them for the flattened struct.
impl<'de> Deserialize<'de> for ServiceAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Flat {
            name: Option<String>,
            url: Option<String>,
            #[serde(rename = "CACerts")]
            ca_certs: Option<String>,
            audience: Option<String>,
            origin: Option<ObjectReference>,
            #[serde(deserialize_with = "wire::null_default")]
            models: Vec<ModelReference>,
        }
        let Flat { name, url, ca_certs, audience, origin, models } = Flat::deserialize(deserializer)?;
        Ok(Self { address: Address { name, url, ca_certs, audience }, origin, models })
    }
}

/// A model that can be used at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelReference {
    /// Value for the `model` field of a request.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
}

/// An object by group, kind and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::group", extend("x-required" = true))]
    pub group: String,

    /// Kind of the object, such as `Gateway` or `Deployment`.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::kind", extend("x-required" = true))]
    pub kind: String,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Namespace of the object. Absent means that of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: Option<String>,
}

/// Gateways, routes, pool and picker in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouterStatus {
    /// Gateways that the routes attach to.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub gateways: Vec<GatewayStatusReference>,

    /// The InferencePool and the picker in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SchedulerStatus>,

    /// The routing group that the service is in, and its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupStatus>,
}

/// A Gateway, and the routes that attach to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayStatusReference {
    /// The Gateway that routes attach to.
    #[serde(flatten)]
    pub reference: ObjectReference,

    /// Listeners that the routes name. Absent means all listeners.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::listener_names")]
    pub listeners: Vec<String>,

    /// Routes that attach to the Gateway.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub http_routes: Vec<ObjectReference>,
}

/// Reads all fields at once: a derived reader would buffer them for the flattened struct.
impl<'de> Deserialize<'de> for GatewayStatusReference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Flat {
            #[serde(deserialize_with = "wire::null_default")]
            group: String,
            #[serde(deserialize_with = "wire::null_default")]
            kind: String,
            #[serde(deserialize_with = "wire::null_default")]
            name: String,
            namespace: Option<String>,
            #[serde(deserialize_with = "wire::null_default")]
            listeners: Vec<String>,
            #[serde(deserialize_with = "wire::null_default")]
            http_routes: Vec<ObjectReference>,
        }
        let Flat { group, kind, name, namespace, listeners, http_routes } = Flat::deserialize(deserializer)?;
        Ok(Self { reference: ObjectReference { group, kind, name, namespace }, listeners, http_routes })
    }
}

/// Pool and picker in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulerStatus {
    /// The InferencePool that the route leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference_pool: Option<ObjectReference>,

    /// The Service in front of the picker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ObjectReference>,
}

/// A routing group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupStatus {
    /// Name of the group, as in `spec.router.route.group`.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,

    /// Members of the group that serve the same models and are routable or stopped, sorted by name. The service is among
    /// them.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub members: Vec<GroupMember>,
}

/// A member of a routing group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupMember {
    /// Name of the service that is a member.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,

    /// Weight of the member: its share of the traffic, in proportion to the other members.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub weight: i32,

    /// Whether the service is stopped and gets no traffic.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub stopped: bool,

    /// Backend for the traffic of the member.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::backend_reference")]
    pub backend_ref: Option<BackendObjectReference>,
}

/// Workloads of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadsStatus {
    /// The decode workload, or the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<ScaledReference>,

    /// The prefill workload, if prefill and decode are separate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill: Option<ScaledReference>,

    /// The Service in front of the pods of all workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<TypedReference>,

    /// The Deployment of the picker, if the picker is managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<ScaledReference>,
}

/// An object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct TypedReference {
    /// API group; absent for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,

    /// Kind of the object, such as `Gateway` or `Deployment`.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
}

/// A workload of the same namespace, and the number of its ready replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ScaledReference {
    /// API group; absent for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,

    /// Kind of the object, such as `Gateway` or `Deployment`.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,

    /// Number of replicas (or groups of pods) that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
}

/// A config that was merged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppliedConfig {
    /// Name of the config or runtime that was merged.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Namespace in which the config or runtime was found. Absent for a ClusterServingRuntime.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,

    /// Why the config was merged: `Preset`, chosen for the topology of the service; `UserRef`, named in `baseRefs`; or
    /// `ServingRuntime`, named in `runtime`.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("enum" = ["Preset", "UserRef", "ServingRuntime"], "x-required" = true))]
    pub source: ConfigSource,
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

/// Observed state of a config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LLMInferenceServiceConfigStatus {
    /// Generation of the spec that this status describes.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub observed_generation: i64,

    /// Whether the config is in use (`ConfigInUse`); `Ready` is always True.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,

    /// Not used, for compatibility only.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub annotations: BTreeMap<String, String>,

    /// Services that use the config, sorted by namespace and name. The config cannot be deleted while there are any.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub referenced_by: Vec<ServiceReference>,
}

/// A service that uses a config.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReference {
    /// Name of the service that uses the config.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,

    /// Namespace of the service that uses the config.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,
}
