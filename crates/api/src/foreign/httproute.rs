//! HTTPRoute, `gateway.networking.k8s.io/v1`, experimental fields included: users embed its spec.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::httproute_filter::HTTPRouteFilter;
use super::reference::{BackendObjectReference, ParentReference};
use crate::resource::kind;
use crate::{cel, schema, wire};

kind! {
    /// An HTTPRoute: which requests go to which back ends.
    pub struct HTTPRoute: "gateway.networking.k8s.io", "v1", "httproutes", Namespaced {
        spec: HTTPRouteSpec,
        status: HTTPRouteStatus,
    }
}

/// Which requests go to which back ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPRouteSpec {
    /// Gateways the route attaches to.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = 32))]
    pub parent_refs: Vec<ParentReference>,

    /// Attach to the default Gateways.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("enum" = ["All", "None"]))]
    pub use_default_gateways: String,

    /// Host names to match. Absent matches all.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::hostnames")]
    pub hostnames: Vec<String>,

    /// Matches, filters and back ends.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::route_rules", extend("x-default" = serde_json::json!([{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}]}])))]
    pub rules: Vec<HTTPRouteRule>,
}

/// Requests that match, and where they go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::route_rule()))]
pub struct HTTPRouteRule {
    /// Name of the rule, unique in the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::section_name")]
    pub name: Option<String>,

    /// What to match; one of them is enough.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = 64, "x-default" = serde_json::json!([{"path": {"type": "PathPrefix", "value": "/"}}])))]
    pub matches: Vec<HTTPRouteMatch>,

    /// What to change on the way.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::route_filters")]
    pub filters: Vec<HTTPRouteFilter>,

    /// Where matching requests go.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = 16))]
    pub backend_refs: Vec<HTTPBackendRef>,

    /// How long a request may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<HTTPRouteTimeouts>,

    /// When to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<HTTPRouteRetry>,

    /// How a session stays with one back end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_persistence: Option<SessionPersistence>,
}

/// What to match: all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPRouteMatch {
    /// How the path of the request has to look. Default: any path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = serde_json::json!({"type": "PathPrefix", "value": "/"})))]
    pub path: Option<HTTPPathMatch>,

    /// Headers that the request has to have; all of them.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = 16))]
    pub headers: Vec<HTTPHeaderMatch>,

    /// Query parameters that the request has to have; all of them.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = 16))]
    pub query_params: Vec<HTTPQueryParamMatch>,

    /// Method that the request has to have. Absent means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]))]
    pub method: Option<String>,
}

/// A path to match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::path_match()))]
pub struct HTTPPathMatch {
    /// How to match: `Exact`, `PathPrefix` or `RegularExpression`. Default `PathPrefix`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Exact", "PathPrefix", "RegularExpression"], "x-default" = "PathPrefix"))]
    pub type_: Option<String>,

    /// The path to compare with. Default `/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 1024, "x-default" = "/"))]
    pub value: Option<String>,
}

/// A header to match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPHeaderMatch {
    /// How to match: `Exact` or `RegularExpression`. Default `Exact`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Exact", "RegularExpression"], "x-default" = "Exact"))]
    pub type_: Option<String>,

    /// Name of the header.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::header_name", extend("x-required" = true))]
    pub name: String,

    /// Value of the header to compare with.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("minLength" = 1, "maxLength" = 4096, "x-required" = true))]
    pub value: String,
}

/// A query parameter to match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPQueryParamMatch {
    /// How to match: `Exact` or `RegularExpression`. Default `Exact`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Exact", "RegularExpression"], "x-default" = "Exact"))]
    pub type_: Option<String>,

    /// Name of the parameter.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::header_name", extend("x-required" = true))]
    pub name: String,

    /// Value of the parameter to compare with.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("minLength" = 1, "maxLength" = 1024, "x-required" = true))]
    pub value: String,
}

/// A back end, and its share of the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPBackendRef {
    /// The back end that gets the requests.
    #[serde(flatten)]
    pub backend: BackendObjectReference,

    /// Share of the requests, in proportion to the other back ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = 1_000_000, "x-default" = 1))]
    pub weight: Option<i32>,

    /// What to change on the way to this back end.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::route_filters")]
    pub filters: Vec<HTTPRouteFilter>,
}

// === impl HTTPRouteRule ===

impl HTTPRouteRule {
    /// Whether requests that match it have nowhere to go: it names no back end, and no filter of it answers them.
    pub fn leads_nowhere(&self) -> bool {
        let answers =
            |filter: &HTTPRouteFilter| matches!(filter.type_.as_str(), "RequestRedirect" | "ExtensionRef");
        self.backend_refs.is_empty() && !self.filters.iter().any(answers)
    }
}

/// Reads all fields at once: a derived reader would buffer them for the flattened struct, and routes have dozens.
impl<'de> Deserialize<'de> for HTTPBackendRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Flat {
            group: Option<String>,
            kind: Option<String>,
            #[serde(deserialize_with = "wire::null_default")]
            name: String,
            namespace: Option<String>,
            port: Option<i32>,
            weight: Option<i32>,
            #[serde(deserialize_with = "wire::null_default")]
            filters: Vec<HTTPRouteFilter>,
        }
        let Flat { group, kind, name, namespace, port, weight, filters } = Flat::deserialize(deserializer)?;
        let backend = BackendObjectReference { group, kind, name, namespace, port };
        Ok(Self { backend, weight, filters })
    }
}

/// How long a request may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::route_timeouts()))]
pub struct HTTPRouteTimeouts {
    /// The whole request, retries included. `0s` means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub request: Option<String>,

    /// One request to a back end. `0s` means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub backend_request: Option<String>,
}

/// When to try again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPRouteRetry {
    /// Answers to try again on.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::retry_codes")]
    pub codes: Vec<i32>,

    /// Times to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::integer")]
    pub attempts: Option<i32>,

    /// Least time between two tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub backoff: Option<String>,
}

/// How a session stays with one back end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::session_persistence()))]
pub struct SessionPersistence {
    /// Name of the cookie or header.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 128))]
    pub session_name: Option<String>,

    /// Time after which a session ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub absolute_timeout: Option<String>,

    /// Time without a request after which a session ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub idle_timeout: Option<String>,

    /// What carries the session: `Cookie` or `Header`. Default `Cookie`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Cookie", "Header"], "x-default" = "Cookie"))]
    pub type_: Option<String>,

    /// Settings of the cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie_config: Option<CookieConfig>,
}

/// Settings of a session cookie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CookieConfig {
    /// Whether the cookie outlives the browser session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Permanent", "Session"], "x-default" = "Session"))]
    pub lifetime_type: Option<String>,
}

/// What was observed of a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPRouteStatus {
    /// What each parent says.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = 32, "x-required" = true))]
    pub parents: Vec<RouteParentStatus>,
}

/// What one parent says of a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteParentStatus {
    /// The parent.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub parent_ref: ParentReference,

    /// Who says so.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::controller_name", extend("x-required" = true))]
    pub controller_name: String,

    /// Accepted, ResolvedRefs.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("minItems" = 1, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "maxItems" = 8, "x-required" = true))]
    pub conditions: Vec<Condition>,
}
