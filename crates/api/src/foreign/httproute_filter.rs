//! Filters of an HTTPRoute.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reference::{BackendObjectReference, LocalObjectReference};
use crate::{cel, schema, wire};

/// What to change on the way: the field that `type` names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::route_filter()))]
pub struct HTTPRouteFilter {
    /// Kind of the filter.
    #[serde(rename = "type", deserialize_with = "wire::null_default")]
    #[schemars(extend("enum" = ["RequestHeaderModifier", "ResponseHeaderModifier", "RequestMirror", "RequestRedirect", "URLRewrite", "ExtensionRef", "CORS"], "x-required" = true))]
    pub type_: String,

    /// Changes headers of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<HTTPHeaderFilter>,

    /// Changes headers of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<HTTPHeaderFilter>,

    /// Send a copy of the request elsewhere too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_mirror: Option<HTTPRequestMirrorFilter>,

    /// Answer with a redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<HTTPRequestRedirectFilter>,

    /// Change host or path of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<HTTPURLRewriteFilter>,

    /// Answers the cross-origin checks of browsers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<HTTPCORSFilter>,

    /// Ask a service whether the request is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_auth: Option<HTTPExternalAuthFilter>,

    /// A filter of the implementation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension_ref: Option<LocalObjectReference>,
}

/// Headers to replace, add and remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPHeaderFilter {
    /// Headers to replace, or to add where they are not there.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = 16))]
    pub set: Vec<HTTPHeader>,

    /// Headers to add to those of the same name.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = 16))]
    pub add: Vec<HTTPHeader>,

    /// Names of the headers to remove.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "set", "maxItems" = 16))]
    pub remove: Vec<String>,
}

/// A header by name, and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPHeader {
    /// Name of the header, in any case.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::header_name", extend("x-required" = true))]
    pub name: String,

    /// Value of the header, as it is sent.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("minLength" = 1, "maxLength" = 4096, "x-required" = true))]
    pub value: String,
}

/// Where copies of requests go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::mirror()))]
pub struct HTTPRequestMirrorFilter {
    /// The back end that gets the copies.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub backend_ref: BackendObjectReference,

    /// Percentage of requests to copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = 100))]
    pub percent: Option<i32>,

    /// Fraction of requests to copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Fraction>,
}

/// A fraction of all requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::fraction()))]
pub struct Fraction {
    /// Number above the line of the fraction.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("minimum" = 0, "x-required" = true))]
    pub numerator: i32,

    /// Number below the line of the fraction. Default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "x-default" = 100))]
    pub denominator: Option<i32>,
}

/// The redirect to answer with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPRequestRedirectFilter {
    /// Scheme of the new URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["http", "https"]))]
    pub scheme: Option<String>,

    /// Host of the new URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::precise_hostname")]
    pub hostname: Option<String>,

    /// Path of the new URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HTTPPathModifier>,

    /// Port of the new URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::port")]
    pub port: Option<i32>,

    /// Status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::redirect_status", extend("x-default" = 302))]
    pub status_code: Option<i32>,
}

/// Host and path to rewrite to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPURLRewriteFilter {
    /// Host that the request is sent on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::precise_hostname")]
    pub hostname: Option<String>,

    /// Path that the request is sent on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HTTPPathModifier>,
}

/// A change to a path: the field that `type` names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::path_modifier()))]
pub struct HTTPPathModifier {
    /// Whether the whole path or the matched prefix is replaced.
    #[serde(rename = "type", deserialize_with = "wire::null_default")]
    #[schemars(extend("enum" = ["ReplaceFullPath", "ReplacePrefixMatch"], "x-required" = true))]
    pub type_: String,

    /// The whole new path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 1024))]
    pub replace_full_path: Option<String>,

    /// What takes the place of the matched prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 1024))]
    pub replace_prefix_match: Option<String>,
}

/// Answers to cross-origin checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPCORSFilter {
    /// Origins that are allowed.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::cors_origins")]
    pub allow_origins: Vec<String>,

    /// Whether credentials are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_credentials: Option<bool>,

    /// Methods that are allowed.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::cors_methods")]
    pub allow_methods: Vec<String>,

    /// Request headers that are allowed.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::cors_allow_headers")]
    pub allow_headers: Vec<String>,

    /// Response headers that scripts may read.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::cors_expose_headers")]
    pub expose_headers: Vec<String>,

    /// Seconds for which an answer is valid.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("minimum" = 1, "x-default" = 5))]
    pub max_age: i32,
}

/// The service that is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::external_auth()))]
pub struct HTTPExternalAuthFilter {
    /// How it is asked.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("enum" = ["HTTP", "GRPC"], "x-required" = true))]
    pub protocol: String,

    /// The service that is asked whether a request may pass.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub backend_ref: BackendObjectReference,

    /// Settings for a service that speaks gRPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GRPCAuthConfig>,

    /// Settings for a service that speaks HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HTTPAuthConfig>,

    /// How much of the body it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_body: Option<ForwardBodyConfig>,
}

/// Settings for asking over gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GRPCAuthConfig {
    /// Headers of the request that it gets.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "set", "maxItems" = 64))]
    pub allowed_headers: Vec<String>,
}

/// Settings for asking over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPAuthConfig {
    /// Prefix of the path.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("maxLength" = 1024, "pattern" = "^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$"))]
    pub path: String,

    /// Headers of the request that it gets.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "set", "maxItems" = 64))]
    pub allowed_headers: Vec<String>,

    /// Headers of its answer that go to the back end.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "set", "maxItems" = 64))]
    pub allowed_response_headers: Vec<String>,
}

/// How much of the body is forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ForwardBodyConfig {
    /// Bytes of the body that it gets, at most.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::integer")]
    pub max_size: u16,
}
