//! Gateway, `gateway.networking.k8s.io/v1`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use serde::{Deserialize, Serialize};

use super::reference::{LocalObjectReference, SecretObjectReference};
use crate::resource::kind;
use crate::wire;

kind! {
    /// A Gateway: listeners that routes attach to.
    pub struct Gateway: "gateway.networking.k8s.io", "v1", "gateways", Namespaced {
        spec: GatewaySpec,
        status: GatewayStatus,
    }
}

/// What a Gateway listens on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// The GatewayClass, which says who runs this Gateway.
    #[serde(deserialize_with = "wire::null_default")]
    pub gateway_class_name: String,

    /// What to listen on.
    #[serde(deserialize_with = "wire::null_default")]
    pub listeners: Vec<Listener>,

    /// Addresses to listen on. Absent leaves the choice to the implementation.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub addresses: Vec<GatewayAddress>,

    /// Which ListenerSets may add listeners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_listeners: Option<AllowedListeners>,

    /// What the objects of the Gateway shall be like, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<GatewayInfrastructure>,

    /// Client certificates: those that clients must have, and that of the Gateway for its back ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
}

/// Client certificates of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayTls {
    /// For back ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<GatewayBackendTls>,

    /// Of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontend: Option<FrontendTls>,
}

/// What a Gateway shows to back ends with TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayBackendTls {
    /// A Secret with its certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_ref: Option<SecretObjectReference>,
}

/// What a Gateway demands of clients with TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTls {
    /// On ports that are not listed.
    #[serde(deserialize_with = "wire::null_default")]
    pub default: FrontendTlsConfig,

    /// On single ports.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub per_port: Vec<FrontendTlsPort>,
}

/// What a Gateway demands of clients on a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTlsPort {
    /// The port of listeners.
    #[serde(deserialize_with = "wire::null_default")]
    pub port: i32,

    /// What it demands.
    #[serde(deserialize_with = "wire::null_default")]
    pub tls: FrontendTlsConfig,
}

/// What a Gateway demands of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTlsConfig {
    /// How certificates of clients are checked. Absent means that clients need none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<FrontendTlsValidation>,
}

/// How certificates of clients are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTlsValidation {
    /// Objects with the certificates of CAs.
    #[serde(deserialize_with = "wire::null_default")]
    pub ca_certificate_refs: Vec<SecretObjectReference>,

    /// `AllowValidOnly` (the default), or `AllowInsecureFallback`, which lets everybody in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// What the objects that are made for a Gateway shall be like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayInfrastructure {
    /// Labels of the objects.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the objects.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub annotations: BTreeMap<String, String>,

    /// An object with further parameters, of a kind that the implementation knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<LocalObjectReference>,
}

/// Which ListenerSets may add listeners to a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedListeners {
    /// Namespaces of the ListenerSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<RouteNamespaces>,
}

/// One thing a Gateway listens on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listener {
    /// Name, unique in the Gateway.
    #[serde(deserialize_with = "wire::null_default")]
    pub name: String,

    /// Host name to match. Absent matches all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,

    /// Port to listen on.
    #[serde(deserialize_with = "wire::null_default")]
    pub port: i32,

    /// HTTP, HTTPS, TLS, TCP or UDP.
    #[serde(deserialize_with = "wire::null_default")]
    pub protocol: String,

    /// Certificates of an HTTPS or TLS listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,

    /// Which routes may attach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_routes: Option<AllowedRoutes>,
}

/// TLS of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTls {
    /// Whether the Gateway terminates TLS (`Terminate`, the default) or passes it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,

    /// Secrets with the certificates.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub certificate_refs: Vec<SecretObjectReference>,
}

/// Which routes may attach to a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedRoutes {
    /// Namespaces of the routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<RouteNamespaces>,

    /// Kinds of the routes.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub kinds: Vec<RouteGroupKind>,
}

/// Namespaces from which routes may attach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteNamespaces {
    /// All, those selected, or only the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,

    /// Labels of the namespaces, with `from: Selector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A kind of route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteGroupKind {
    /// API group of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// Kind of the route.
    #[serde(deserialize_with = "wire::null_default")]
    pub kind: String,
}

/// What was observed of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayStatus {
    /// Addresses it has.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub addresses: Vec<GatewayAddress>,

    /// How many ListenerSets add listeners to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached_listener_sets: Option<i32>,

    /// Accepted, Programmed.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,

    /// State of each listener.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub listeners: Vec<ListenerStatus>,
}

/// An address of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayAddress {
    /// IPAddress, Hostname, or a type of the implementation.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,

    /// The address. In a spec, an empty one leaves the choice to the implementation.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub value: String,
}

/// State of a listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerStatus {
    /// Name of the listener.
    #[serde(deserialize_with = "wire::null_default")]
    pub name: String,

    /// Kinds of routes that can attach.
    #[serde(deserialize_with = "wire::null_default")]
    pub supported_kinds: Vec<RouteGroupKind>,

    /// Routes that attach.
    #[serde(deserialize_with = "wire::null_default")]
    pub attached_routes: i32,

    /// Accepted, Programmed, ResolvedRefs.
    #[serde(deserialize_with = "wire::null_default")]
    pub conditions: Vec<Condition>,
}
