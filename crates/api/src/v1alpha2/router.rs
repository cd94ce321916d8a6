//! How clients reach the model.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LocalReference;
use crate::foreign::httproute::HTTPRouteSpec;
use crate::foreign::inferencepool::InferencePoolSpec;
use crate::{crd, schema, wire};

/// How clients reach the model: route, Gateway and picker. `{}` selects the default of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouterSpec {
    /// The HTTPRoute to the service. `{}` creates a managed route for the paths of the OpenAI API below
    /// `/<namespace>/<name>`; `http.refs` uses your own routes. If absent, there is no route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteSpec>,

    /// The Gateway that the route attaches to. `{}` and absent mean the default Gateway of the platform. The controller
    /// never creates a Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewaySpec>,

    /// Ingresses that lead to the service. Accepted for compatibility, without effect. Excludes `route.group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressSpec>,

    /// The endpoint picker, which chooses a replica for each request by queue, KV cache and prefix, and its InferencePool.
    /// `{}` creates the managed picker and pool. If absent, the Service spreads requests over the replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Box<SchedulerSpec>>,
}

/// The HTTPRoute of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteSpec {
    /// Your own routes (`refs`), or your own spec for the managed route (`spec`); not both. If absent, the route of the
    /// preset is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRouteSource>,

    /// Name of a routing group, for canaries and A/B tests. Services of the same namespace, model and group share their
    /// traffic by `weight`. 1 to 63 lower-case letters, digits and `-`. Needs `weight`; excludes `http.refs` and
    /// `router.ingress`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::routing_group")]
    pub group: Option<String>,

    /// Weight of the service in its group, 0 to 1000000. The service gets its weight divided by the sum of the weights of
    /// all members; 0 means no traffic. Needs `group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = 1_000_000))]
    pub weight: Option<i32>,
}

/// Your own routes (`refs`), or your own spec for the managed route (`spec`); not both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteSource {
    /// Your own HTTPRoutes, in the namespace of the service. Each needs a parent Gateway that exists. Excludes `spec`,
    /// `route.group` and `gateway: {}`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub refs: Vec<LocalReference>,

    /// Spec of the managed HTTPRoute, merged over that of the preset. A list replaces the whole list of the preset: `rules`
    /// replace all paths of the OpenAI API, and each rule needs its own `backendRefs`. Excludes `refs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::route_spec")]
    pub spec: Option<Box<HTTPRouteSpec>>,
}

/// The Gateways that the route attaches to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// Gateways that the managed route attaches to instead of the default Gateway; they become its `parentRefs`. Without
    /// effect on your own routes.
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

    /// Namespace of the Gateway. The Gateway must allow routes from the namespace of the service. Default: the namespace of
    /// the service.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,

    /// Name of the listener of the Gateway to attach to. If absent, the route attaches to all listeners that accept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::section_name")]
    pub section_name: Option<String>,
}

/// Ingresses that lead to the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressSpec {
    /// Your own Ingresses. Without effect.
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

/// The endpoint picker and its InferencePool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulerSpec {
    /// The InferencePool, which selects the pods that the picker chooses from. `ref` uses an existing pool with its own
    /// picker; `spec` changes the managed pool. Default: the managed pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<InferencePoolSource>,

    /// Pod spec of the picker, merged over that of the preset. A container named `main` changes the picker; any other name
    /// adds a container. Without effect with `pool.ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-optional-containers" = true))]
    pub template: Option<Box<PodSpec>>,

    /// Additional labels for the pods of the picker. Without effect with `pool.ref`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub labels: BTreeMap<String, String>,

    /// Annotations for the pods of the picker. `app.kubernetes.io/version` states the version of the picker in the image;
    /// the controller writes the configuration for that version. Without effect with `pool.ref`.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub annotations: BTreeMap<String, String>,

    /// The EndpointPickerConfig (plugins, profiles and weights), either `inline` or from a ConfigMap (`ref`). Default: the
    /// configuration for the topology of the service. Without effect with `pool.ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<SchedulerConfigSpec>,

    /// Number of picker pods, above zero. If there are several, one is active and the others stand by. If absent, the
    /// controller does not change the number, which is 1 at first. Without effect with `pool.ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// A tokenizer service for plugins that need tokens. Any value, even `{}`, turns it on; so does a plugin in `config`
    /// that needs it. Without effect with `pool.ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerSpec>,
}

/// An existing pool (`ref`), or the spec of the managed pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InferencePoolSource {
    /// Your own InferencePool, in the namespace of the service. The route leads to it, and the controller creates no
    /// picker.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<LocalReference>,

    /// Spec of the managed InferencePool, merged over that of the preset. Without effect with `ref`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crd::pool_spec")]
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

    /// A key of a ConfigMap in the namespace of the service, which holds the configuration as YAML. Plugins in that
    /// ConfigMap do not turn the tokenizer on. Excludes `inline`.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub ref_: Option<ConfigMapKeyReference>,
}

/// One key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ConfigMapKeyReference {
    /// Name of the ConfigMap, which must exist. A ConfigMap whose name starts with `config-scheduler-` may also be in the
    /// namespace of the platform.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-default" = ""))]
    pub name: String,

    /// Key of the ConfigMap. Empty means `epp`.
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
    /// Pod spec of the tokenizer, merged over that of the preset. A container named `main` changes the tokenizer. Unlike in
    /// other templates, `containers` is required.
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
