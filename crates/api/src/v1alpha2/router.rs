//! How clients reach the model (contract 01 §2.3).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LocalReference;
use crate::foreign::httproute::HTTPRouteSpec;
use crate::foreign::inferencepool::InferencePoolSpec;
use crate::{schema, wire};

/// How clients reach the model. Each part is managed when set to `{}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouterSpec {
    /// The HTTPRoute. `{}` gives the managed one; `http.refs` brings your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteSpec>,

    /// The Gateway the route attaches to. `{}` means the default one of the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySpec>,

    /// Ingresses that lead to the service. Accepted, but nothing is made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressSpec>,

    /// The endpoint picker, which chooses the best replica for each request. `{}` gives the managed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SchedulerSpec>,
}

/// The HTTPRoute of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteSpec {
    /// Your own routes, or your own spec for the managed route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRouteSource>,

    /// Name of a routing group: services of one group share their traffic by `weight`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::routing_group")]
    pub group: Option<String>,

    /// Share of the traffic of the group, in proportion to the other members.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = 1_000_000))]
    pub weight: Option<i32>,
}

/// Your own routes (`refs`), or your own spec for the managed route (`spec`); not both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteSource {
    /// HTTPRoutes you manage, in the namespace of the service.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub refs: Vec<LocalReference>,

    /// Spec of the managed HTTPRoute. Lists replace those of the preset as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<HTTPRouteSpec>,
}

/// The Gateways the route attaches to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// Gateways to attach to, instead of the default one.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub refs: Vec<GatewayReference>,
}

/// A Gateway, or one listener of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayReference {
    /// Name of the Gateway.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,

    /// Namespace of the Gateway. Absent means that of the service.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,

    /// Listener of the Gateway. Absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::section_name")]
    pub section_name: Option<String>,
}

/// Ingresses that lead to the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressSpec {
    /// Ingresses you manage.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub refs: Vec<UntypedObjectReference>,
}

/// An object by name and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UntypedObjectReference {
    /// Name of the object.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,

    /// Namespace of the object. Absent means that of the service.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,
}

/// The endpoint picker and the pool it picks from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulerSpec {
    /// The InferencePool. `ref` uses one that exists, with its own picker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<InferencePoolSource>,

    /// Pod of the picker, merged over the preset. Its container is named `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-optional-containers" = true))]
    pub template: Option<PodSpec>,

    /// Labels for the pods of the picker.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub labels: BTreeMap<String, String>,

    /// Annotations for the pods of the picker.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub annotations: BTreeMap<String, String>,

    /// The EndpointPickerConfig: plugins, profiles and weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<SchedulerConfigSpec>,

    /// Number of picker pods. Absent means one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// A tokenizer service for plugins that need tokens. Setting it turns it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerSpec>,
}

/// An existing pool (`ref`), or the spec of the managed one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InferencePoolSource {
    /// An InferencePool you manage, in the namespace of the service.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<LocalReference>,

    /// Spec of the managed InferencePool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<InferencePoolSpec>,
}

/// The EndpointPickerConfig: exactly one of `inline` and `ref`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulerConfigSpec {
    /// The configuration itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub inline: Option<serde_json::Value>,

    /// A ConfigMap that holds the configuration.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<ConfigMapKeyReference>,
}

/// One key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ConfigMapKeyReference {
    /// Name of the ConfigMap.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-default" = ""))]
    pub name: String,

    /// Key within it. Empty means `epp`.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub key: String,

    /// Whether the ConfigMap or key may be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A tokenizer service beside the picker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenizerSpec {
    /// Pod of the tokenizer, merged over the preset. Its container is named `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PodSpec>,
}

// === impl RouterSpec ===

impl InferencePoolSource {
    /// Name of the pool that the user manages, if there is one: `ref` with a non-empty name.
    pub fn external_name(&self) -> Option<&str> {
        self.ref_.as_ref().map(|r| r.name.as_str()).filter(|name| !name.is_empty())
    }
}

impl SchedulerSpec {
    /// Name of the pool that the user manages, if there is one.
    pub fn external_pool(&self) -> Option<&str> {
        self.pool.as_ref().and_then(InferencePoolSource::external_name)
    }
}

impl RouteSpec {
    /// The user's own HTTPRoutes; empty when the route is managed.
    pub fn refs(&self) -> &[LocalReference] {
        self.http.as_ref().map_or(&[], |http| http.refs.as_slice())
    }
}
