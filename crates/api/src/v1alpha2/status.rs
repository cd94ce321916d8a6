//! What the controller reports (contract 01 §3).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::foreign::reference::BackendObjectReference;
use crate::{schema, wire};

/// What was observed of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LLMInferenceServiceStatus {
    /// Where to send requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,

    /// Generation of the spec that this status describes.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub observed_generation: i64,

    /// What is ready and what is not, sorted by type.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,

    /// Names of the presets this service was created with.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub annotations: BTreeMap<String, String>,

    /// Not used; see `addresses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,

    /// Every address of the service, and the models reachable there.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<ServiceAddress>,

    /// Gateways, routes, pool and picker in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterStatus>,

    /// Workloads made for the service.
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
    /// What kind of address this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// The URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,

    /// Certificates to trust at this address, as PEM.
    #[serde(rename = "CACerts", skip_serializing_if = "Option::is_none")]
    pub ca_certs: Option<String>,

    /// Audience for tokens sent to this address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
}

/// An address of the service, and what is reachable there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceAddress {
    /// The address.
    #[serde(flatten)]
    pub address: Address,

    /// The Gateway that provides the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<ObjectReference>,

    /// Model names that can be used at this address.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub models: Vec<ModelReference>,
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

    /// Kind of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::kind", extend("x-required" = true))]
    pub kind: String,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Namespace of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: Option<String>,
}

/// Gateways, routes, pool and picker in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouterStatus {
    /// Gateways the routes attach to.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub gateways: Vec<GatewayStatusReference>,

    /// Pool and picker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SchedulerStatus>,

    /// Routing group and its members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupStatus>,
}

/// A Gateway, and the routes that attach to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayStatusReference {
    /// The Gateway.
    #[serde(flatten)]
    pub reference: ObjectReference,

    /// Listeners the routes name. Absent means all.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::listener_names")]
    pub listeners: Vec<String>,

    /// Routes that attach to the Gateway.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub http_routes: Vec<ObjectReference>,
}

/// Pool and picker in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulerStatus {
    /// The InferencePool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inference_pool: Option<ObjectReference>,

    /// The Service of the picker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<ObjectReference>,
}

/// A routing group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupStatus {
    /// Name of the group.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,

    /// Members, sorted by name.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub members: Vec<GroupMember>,
}

/// A member of a routing group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupMember {
    /// Name of the service.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,

    /// Its share of the traffic.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub weight: i32,

    /// Whether the service is stopped and gets no traffic.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub stopped: bool,

    /// Where its traffic goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_ref: Option<BackendObjectReference>,
}

/// Workloads made for a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadsStatus {
    /// The decode workload, or the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<ScaledReference>,

    /// The prefill workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill: Option<ScaledReference>,

    /// The Service in front of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<TypedReference>,

    /// The picker.
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

    /// Kind of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,
}

/// A workload of the same namespace, and how much of it is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ScaledReference {
    /// API group; absent for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,

    /// Kind of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub kind: String,

    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub name: String,

    /// Replicas (or pod groups) that can serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
}

/// A config that was merged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppliedConfig {
    /// Name of the config.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub name: String,

    /// Namespace it was found in.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::namespace", extend("x-required" = true))]
    pub namespace: String,

    /// Why it was merged.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("enum" = ["Preset", "UserRef"], "x-required" = true))]
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
}

impl ConfigSource {
    /// The value on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Preset => "Preset",
            Self::UserRef => "UserRef",
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

/// What was observed of a config.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LLMInferenceServiceConfigStatus {
    /// Generation of the spec that this status describes.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub observed_generation: i64,

    /// Whether the config is in use.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,

    /// Not used.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub annotations: BTreeMap<String, String>,

    /// Services that use the config, sorted by namespace and name.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub referenced_by: Vec<ServiceReference>,
}

/// A service that uses a config.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceReference {
    /// Name of the service.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,

    /// Namespace of the service.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,
}
