//! Gateway, `gateway.networking.k8s.io/v1`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reference::{LocalObjectReference, ObjectReference, SecretObjectReference};
use crate::resource::kind;
use crate::{cel, schema, wire};

kind! {
    /// A Gateway: listeners that routes attach to.
    pub struct Gateway: "gateway.networking.k8s.io", "v1", "gateways", Namespaced {
        spec: GatewaySpec,
        status: GatewayStatus,
    }
}

/// What a Gateway listens on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// The GatewayClass, which says who runs this Gateway.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
    pub gateway_class_name: String,

    /// What to listen on.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::listeners", extend("x-required" = true))]
    pub listeners: Vec<Listener>,

    /// Addresses asked for.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::gateway_addresses")]
    pub addresses: Vec<GatewayAddress>,

    /// Labels, annotations and parameters of what runs the Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<GatewayInfrastructure>,

    /// Which ListenerSets may attach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_listeners: Option<AllowedListeners>,

    /// TLS towards clients and back ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTlsConfig>,
}

/// One thing a Gateway listens on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Listener {
    /// Name, unique in the Gateway.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::section_name", extend("x-required" = true))]
    pub name: String,

    /// Host name to match. Absent matches all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::hostname")]
    pub hostname: Option<String>,

    /// Port to listen on.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::port", extend("x-required" = true))]
    pub port: i32,

    /// HTTP, HTTPS, TLS, TCP or UDP.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::protocol", extend("x-required" = true))]
    pub protocol: String,

    /// Certificates of the listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTlsConfig>,

    /// Which routes may attach.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = serde_json::json!({"namespaces": {"from": "Same"}})))]
    pub allowed_routes: Option<AllowedRoutes>,
}

/// Certificates of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::listener_tls()))]
pub struct ListenerTlsConfig {
    /// Whether TLS ends here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Terminate", "Passthrough"], "x-default" = "Terminate"))]
    pub mode: Option<String>,

    /// Certificates to serve.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = 64))]
    pub certificate_refs: Vec<SecretObjectReference>,

    /// Settings of the implementation.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::tls_options")]
    pub options: BTreeMap<String, String>,
}

/// Which routes may attach to a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedRoutes {
    /// Namespaces of the routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = serde_json::json!({"from": "Same"})))]
    pub namespaces: Option<RouteNamespaces>,

    /// Kinds of the routes.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = 8))]
    pub kinds: Vec<RouteGroupKind>,
}

/// Namespaces from which routes may attach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteNamespaces {
    /// All, those selected, or only the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["All", "Selector", "Same"], "x-default" = "Same"))]
    pub from: Option<String>,

    /// Labels of the namespaces, with `from: Selector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A kind of route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteGroupKind {
    /// API group of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::group", extend("x-default" = "gateway.networking.k8s.io"))]
    pub group: Option<String>,

    /// Kind of the route.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::kind", extend("x-required" = true))]
    pub kind: String,
}

/// An address asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::gateway_address()))]
pub struct GatewayAddress {
    /// IPAddress, Hostname, or a type of the implementation.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::address_type", extend("x-default" = "IPAddress"))]
    pub type_: Option<String>,

    /// The address. Absent means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 253))]
    pub value: Option<String>,
}

/// Labels, annotations and parameters of what runs a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayInfrastructure {
    /// Labels to set.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::infrastructure_labels")]
    pub labels: BTreeMap<String, String>,

    /// Annotations to set.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::infrastructure_annotations")]
    pub annotations: BTreeMap<String, String>,

    /// Settings of the implementation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<LocalObjectReference>,
}

/// Which ListenerSets may attach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedListeners {
    /// Namespaces of the ListenerSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = serde_json::json!({"from": "None"})))]
    pub namespaces: Option<ListenerNamespaces>,
}

/// Namespaces from which ListenerSets may attach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerNamespaces {
    /// All, those selected, only the same namespace, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["All", "Selector", "Same", "None"], "x-default" = "None"))]
    pub from: Option<String>,

    /// Labels of the namespaces, with `from: Selector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// TLS towards clients and back ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayTlsConfig {
    /// Towards back ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<GatewayBackendTls>,

    /// Towards clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontend: Option<FrontendTlsConfig>,
}

/// TLS towards back ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayBackendTls {
    /// Certificate shown to back ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_ref: Option<SecretObjectReference>,
}

/// TLS towards clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTlsConfig {
    /// For every port that has no settings of its own.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub default: FrontendTls,

    /// For single ports.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::frontend_tls_ports")]
    pub per_port: Vec<PortFrontendTls>,
}

/// TLS towards clients on one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PortFrontendTls {
    /// The port.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::port", extend("x-required" = true))]
    pub port: i32,

    /// Its settings.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub tls: FrontendTls,
}

/// TLS towards clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTls {
    /// How client certificates are checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<FrontendTlsValidation>,
}

/// How client certificates are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTlsValidation {
    /// Authorities to trust.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "minItems" = 1, "maxItems" = 8, "x-required" = true))]
    pub ca_certificate_refs: Vec<ObjectReference>,

    /// Whether clients without a valid certificate are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["AllowValidOnly", "AllowInsecureFallback"], "x-default" = "AllowValidOnly"))]
    pub mode: Option<String>,
}

/// What was observed of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayStatus {
    /// Addresses it has.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(schema_with = "schema::gateway_status_addresses")]
    pub addresses: Vec<GatewayStatusAddress>,

    /// Accepted, Programmed.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "maxItems" = 8, "x-default" = schema::pending_gateway()))]
    pub conditions: Vec<Condition>,

    /// State of each listener.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "maxItems" = 64))]
    pub listeners: Vec<ListenerStatus>,

    /// ListenerSets that attach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached_listener_sets: Option<i32>,
}

/// An address of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = cel::gateway_status_address()))]
pub struct GatewayStatusAddress {
    /// IPAddress, Hostname, or a type of the implementation.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::address_type", extend("x-default" = "IPAddress"))]
    pub type_: Option<String>,

    /// The address.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("minLength" = 1, "maxLength" = 253, "x-required" = true))]
    pub value: String,
}

/// State of a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerStatus {
    /// Name of the listener.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(schema_with = "schema::section_name", extend("x-required" = true))]
    pub name: String,

    /// Kinds of routes that can attach.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic", "maxItems" = 8))]
    pub supported_kinds: Vec<RouteGroupKind>,

    /// Routes that attach.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-required" = true))]
    pub attached_routes: i32,

    /// Accepted, Programmed, ResolvedRefs.
    #[serde(deserialize_with = "wire::null_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "maxItems" = 8, "x-required" = true))]
    pub conditions: Vec<Condition>,
}
