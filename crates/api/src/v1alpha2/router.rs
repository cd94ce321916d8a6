//! How clients reach the model.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LocalReference;
use crate::foreign::httproute::HTTPRouteSpec;
use crate::foreign::inferencepool::InferencePoolSpec;
use crate::{schema, wire};

/// How clients reach the model: route, gateway and picker. Each part is managed when set to `{}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouterSpec {
    /// The HTTPRoute to the service. `{}` gives the managed one with the paths of the OpenAI API below
    /// `/<namespace>/<name>`; `http.refs` brings your own. Absent makes no route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteSpec>,

    /// The Gateway that the route attaches to. `{}`, as absent, means the default one of the platform. No Gateway is ever
    /// created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySpec>,

    /// Ingresses that lead to the service. Accepted for compatibility, but without effect; excludes `route.group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressSpec>,

    /// The endpoint picker, which chooses the best replica for each request by queue, cache and prefix, and the
    /// InferencePool it picks from. `{}` gives the managed ones. Absent spreads requests over the replicas by the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Box<SchedulerSpec>>,
}

/// The HTTPRoute of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteSpec {
    /// Your own routes (`refs`), or your own spec for the managed route (`spec`); not both. Absent gives the route of the
    /// preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRouteSource>,

    /// Name of a routing group: services of one namespace, model and group share their traffic by `weight`, for canaries
    /// and A/B tests. 1 to 63 lower-case letters, digits and `-`. Needs `weight`; excludes `http.refs` and
    /// `router.ingress`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::routing_group")]
    pub group: Option<String>,

    /// Share of the traffic of the group, in proportion to the sum over its members: 0 to 1000000, where 0 means no
    /// traffic. Needs `group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = 1_000_000))]
    pub weight: Option<i32>,
}

/// Your own routes (`refs`), or your own spec for the managed route (`spec`); not both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteSource {
    /// HTTPRoutes that you manage, in the namespace of the service, each with a parent Gateway that exists. Excludes
    /// `spec`, `route.group` and `gateway: {}`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub refs: Vec<LocalReference>,

    /// Spec of the managed HTTPRoute, merged over the preset's. Lists replace those of the preset as a whole: `rules` take
    /// the place of all paths of the OpenAI API, and each needs its own `backendRefs`. Excludes `refs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Box<HTTPRouteSpec>>,
}

/// The Gateways the route attaches to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// Gateways that the managed route attaches to, instead of the default one; they become its `parentRefs`. Without
    /// effect on routes of your own.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub refs: Vec<GatewayReference>,
}

/// A Gateway, or one listener of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayReference {
    /// Name of the Gateway, which must exist.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,

    /// Namespace of the Gateway, which must allow routes from that of the service. Absent means that of the service.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,

    /// Name of the listener of the Gateway to attach to. Absent means all that accept the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::section_name")]
    pub section_name: Option<String>,
}

/// Ingresses that lead to the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressSpec {
    /// Ingresses that you manage. Without effect.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub refs: Vec<UntypedObjectReference>,
}

/// An Ingress, by name and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UntypedObjectReference {
    /// Name of the Ingress. Without effect.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::object_name")]
    pub name: String,

    /// Namespace of the Ingress. Without effect.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,
}

/// The endpoint picker and the pool it picks from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulerSpec {
    /// The InferencePool: the pods that the picker picks from. `ref` uses one that exists, with its own picker; `spec`
    /// changes the managed one. Absent gives the managed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<InferencePoolSource>,

    /// Pod of the picker, merged over the preset's: name the container `main` to change the picker, any other name to add
    /// one beside it. Without effect with `pool.ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-optional-containers" = true))]
    pub template: Option<Box<PodSpec>>,

    /// Labels for the pods of the picker, added to ours. Without effect with `pool.ref`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub labels: BTreeMap<String, String>,

    /// Annotations for the pods of the picker; `app.kubernetes.io/version` says which picker the image holds, so that its
    /// configuration is written for that version. Without effect with `pool.ref`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub annotations: BTreeMap<String, String>,

    /// The EndpointPickerConfig: plugins, profiles and weights, `inline` or from a ConfigMap (`ref`). Absent gives the default
    /// for the topology. Without effect with `pool.ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<SchedulerConfigSpec>,

    /// Number of picker pods, above zero. With more than one, one of them is active and the others stand by. Absent leaves
    /// the number as it is, at first 1. Without effect with `pool.ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// A tokenizer service for plugins that need tokens. Setting it, even to `{}`, turns it on; so does a plugin in `config`
    /// that needs it. Without effect with `pool.ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerSpec>,
}

/// An existing pool (`ref`), or the spec of the managed one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InferencePoolSource {
    /// An InferencePool that you manage, in the namespace of the service; the route leads to it and no picker is made.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<LocalReference>,

    /// Spec of the managed InferencePool, merged over the preset's. Without effect with `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Box<InferencePoolSpec>>,
}

/// The EndpointPickerConfig: exactly one of `inline` and `ref`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulerConfigSpec {
    /// The configuration itself, as an object of kind `EndpointPickerConfig`. Excludes `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub inline: Option<serde_json::Value>,

    /// A key of a ConfigMap in the namespace of the service that holds the configuration as YAML. Excludes `inline`. Plugins
    /// named only there do not turn the tokenizer on.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<ConfigMapKeyReference>,
}

/// One key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ConfigMapKeyReference {
    /// Name of the ConfigMap, which must exist. A name that starts with `config-scheduler-` may also be one of the platform's.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-default" = ""))]
    pub name: String,

    /// Key within the ConfigMap. Empty means `epp`.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub key: String,

    /// Without effect: the ConfigMap and the key must exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// A tokenizer service beside the picker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenizerSpec {
    /// Pod of the tokenizer, merged over the preset's: name the container `main` to change the tokenizer. Unlike in other
    /// templates, `containers` is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Box<PodSpec>>,
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
