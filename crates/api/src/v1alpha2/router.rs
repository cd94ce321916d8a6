//! How clients reach the model.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use schemars::JsonSchema;

use super::LocalReference;
use crate::foreign::httproute::HTTPRouteSpec;
use crate::foreign::inferencepool::InferencePoolSpec;
use crate::{crd, schema, wire::go_struct};

go_struct! {
    /// How clients reach the model: route, Gateway and picker. `{}` selects the default of a part.
    #[derive(JsonSchema)]
    pub struct RouterSpec {
        /// The HTTPRoute to the service. `{}` creates a managed route for the paths of the OpenAI API below
        /// `/<namespace>/<name>`; `http.refs` uses your own routes. If absent, there is no route.
        pub route: Option<RouteSpec>,

        /// The Gateway that the route attaches to. `{}` and absent mean the default Gateway of the platform. The controller
        /// never creates a Gateway.
        pub gateway: Option<GatewaySpec>,

        /// Ingresses that lead to the service. Accepted for compatibility, without effect. Excludes `route.group`.
        pub ingress: Option<IngressSpec>,

        /// The endpoint picker, which chooses a replica for each request by queue, KV cache and prefix, and its InferencePool.
        /// `{}` creates the managed picker and pool. If absent, the Service spreads requests over the replicas.
        pub scheduler: Option<Box<SchedulerSpec>>,
    }

    /// The HTTPRoute of the service.
    #[derive(JsonSchema)]
    pub struct RouteSpec {
        /// Your own routes (`refs`), or your own spec for the managed route (`spec`); not both. If absent, the route of the
        /// preset is used.
        pub http: Option<HttpRouteSource>,

        /// Name of a routing group, for canaries and A/B tests. Services of the same namespace, model and group share their
        /// traffic by `weight`. 1 to 63 lower-case letters, digits and `-`. Needs `weight`; excludes `http.refs` and
        /// `router.ingress`.
        #[schemars(schema_with = "schema::routing_group")]
        pub group: Option<String>,

        /// Weight of the service in its group, 0 to 1000000. The service gets its weight divided by the sum of the weights of
        /// all members; 0 means no traffic. Needs `group`.
        #[schemars(extend("minimum" = 0, "maximum" = 1_000_000))]
        pub weight: Option<i32>,
    }

    /// Your own routes (`refs`), or your own spec for the managed route (`spec`); not both.
    #[derive(JsonSchema)]
    pub struct HttpRouteSource {
        /// Your own HTTPRoutes, in the namespace of the service. Each needs a parent Gateway that exists. Excludes `spec`,
        /// `route.group` and `gateway: {}`.
        pub refs: Vec<LocalReference>,

        /// Spec of the managed HTTPRoute, merged over that of the preset. A list replaces the whole list of the preset: `rules`
        /// replace all paths of the OpenAI API, and each rule needs its own `backendRefs`. Excludes `refs`.
        #[schemars(schema_with = "crd::route_spec")]
        pub spec: Option<Box<HTTPRouteSpec>>,
    }

    /// The Gateways that the route attaches to.
    #[derive(Eq, JsonSchema)]
    pub struct GatewaySpec {
        /// Gateways that the managed route attaches to instead of the default Gateway; they become its `parentRefs`. Without
        /// effect on your own routes.
        pub refs: Vec<GatewayReference>,
    }

    /// A Gateway, or one listener of it.
    #[derive(Eq, JsonSchema)]
    pub struct GatewayReference {
        /// Name of the Gateway, which must exist.
        #[schemars(schema_with = "schema::object_name")]
        pub name: String,

        /// Namespace of the Gateway. The Gateway must allow routes from the namespace of the service. Default: the namespace of
        /// the service.
        #[schemars(schema_with = "schema::namespace")]
        pub namespace: String,

        /// Name of the listener of the Gateway to attach to. If absent, the route attaches to all listeners that accept it.
        #[schemars(schema_with = "schema::section_name")]
        pub section_name: Option<String>,
    }

    /// Ingresses that lead to the service.
    #[derive(Eq, JsonSchema)]
    pub struct IngressSpec {
        /// Your own Ingresses. Without effect.
        pub refs: Vec<UntypedObjectReference>,
    }

    /// An Ingress, by name and namespace.
    #[derive(Eq, JsonSchema)]
    pub struct UntypedObjectReference {
        /// Name of the Ingress. Without effect.
        #[schemars(schema_with = "schema::object_name")]
        pub name: String,

        /// Namespace of the Ingress. Without effect.
        #[schemars(schema_with = "schema::namespace")]
        pub namespace: String,
    }

    /// The endpoint picker and its InferencePool.
    #[derive(JsonSchema)]
    pub struct SchedulerSpec {
        /// The InferencePool, which selects the pods that the picker chooses from. `ref` uses an existing pool with its own
        /// picker; `spec` changes the managed pool. Default: the managed pool.
        pub pool: Option<InferencePoolSource>,

        /// Pod spec of the picker, merged over that of the preset. A container named `main` changes the picker; any other name
        /// adds a container. Without effect with `pool.ref`.
        #[schemars(extend("x-optional-containers" = true))]
        pub template: Option<Box<PodSpec>>,

        /// Additional labels for the pods of the picker. Without effect with `pool.ref`.
        pub labels: BTreeMap<String, String>,

        /// Annotations for the pods of the picker. `app.kubernetes.io/version` states the version of the picker in the image;
        /// the controller writes the configuration for that version. Without effect with `pool.ref`.
        pub annotations: BTreeMap<String, String>,

        /// The EndpointPickerConfig (plugins, profiles and weights), either `inline` or from a ConfigMap (`ref`). Default: the
        /// configuration for the topology of the service. Without effect with `pool.ref`.
        pub config: Option<SchedulerConfigSpec>,

        /// Number of picker pods, above zero. If there are several, one is active and the others stand by. If absent, the
        /// controller does not change the number, which is 1 at first. Without effect with `pool.ref`.
        pub replicas: Option<i32>,

        /// A tokenizer service for plugins that need tokens. Any value, even `{}`, turns it on; so does a plugin in `config`
        /// that needs it. Without effect with `pool.ref`.
        pub tokenizer: Option<TokenizerSpec>,
    }

    /// An existing pool (`ref`), or the spec of the managed pool.
    #[derive(JsonSchema)]
    pub struct InferencePoolSource {
        /// Your own InferencePool, in the namespace of the service. The route leads to it, and the controller creates no
        /// picker.
        #[serde(rename = "ref")]
        pub ref_: Option<LocalReference>,

        /// Spec of the managed InferencePool, merged over that of the preset. Without effect with `ref`.
        #[schemars(schema_with = "crd::pool_spec")]
        pub spec: Option<Box<InferencePoolSpec>>,
    }

    /// The EndpointPickerConfig: exactly one of `inline` and `ref`.
    #[derive(JsonSchema)]
    pub struct SchedulerConfigSpec {
        /// The configuration itself, as an object of kind `EndpointPickerConfig`. Excludes `ref`.
        #[schemars(schema_with = "schema::any_object")]
        pub inline: Option<serde_json::Value>,

        /// A key of a ConfigMap in the namespace of the service, which holds the configuration as YAML. Plugins in that
        /// ConfigMap do not turn the tokenizer on. Excludes `inline`.
        #[serde(rename = "ref")]
        pub ref_: Option<ConfigMapKeyReference>,
    }

    /// One key of a ConfigMap.
    #[derive(Eq, JsonSchema)]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub struct ConfigMapKeyReference {
        /// Name of the ConfigMap, which must exist. A ConfigMap whose name starts with `config-scheduler-` may also be in the
        /// namespace of the platform.
        #[schemars(extend("x-default" = ""))]
        pub name: String,

        /// Key of the ConfigMap. Empty means `epp`.
        #[schemars(extend("x-required" = true))]
        always pub key: String,

        /// Without effect: the ConfigMap and the key must exist.
        pub optional: Option<bool>,
    }

    /// A tokenizer service beside the picker.
    #[derive(JsonSchema)]
    pub struct TokenizerSpec {
        /// Pod spec of the tokenizer, merged over that of the preset. A container named `main` changes the tokenizer. Unlike in
        /// other templates, `containers` is required.
        pub template: Option<Box<PodSpec>>,
    }
}

// === impl SchedulerSpec ===

impl SchedulerSpec {
    /// Name of the pool that the user manages, if there is one: `ref` with a non-empty name.
    pub fn external_pool(&self) -> Option<&str> {
        let reference = self.pool.as_ref()?.ref_.as_ref()?;
        Some(reference.name.as_str()).filter(|name| !name.is_empty())
    }
}

impl RouteSpec {
    /// The user's own HTTPRoutes; empty when the route is managed.
    pub fn refs(&self) -> &[LocalReference] {
        self.http.as_ref().map_or(&[], |http| http.refs.as_slice())
    }
}
