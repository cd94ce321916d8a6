//! Gateway, `gateway.networking.k8s.io/v1`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use serde_json::Value;

use super::reference::{LocalObjectReference, SecretObjectReference};
use crate::resource::kind;
use crate::wire::go_struct;

kind! {
    /// A Gateway: listeners that routes attach to.
    pub struct Gateway: "gateway.networking.k8s.io", "v1", "gateways", Namespaced {
        spec: GatewaySpec,
        status: GatewayStatus,
    }
}

go_struct! {
    /// What a Gateway listens on.
    pub struct GatewaySpec {
        /// The GatewayClass, which says who runs this Gateway.
        always pub gateway_class_name: String,

        /// What to listen on.
        always pub listeners: Vec<Listener>,

        /// Addresses to listen on. Absent leaves the choice to the implementation.
        pub addresses: Vec<GatewayAddress>,

        /// Which ListenerSets may add listeners.
        pub allowed_listeners: Option<AllowedListeners>,

        /// What the objects of the Gateway shall be like, if there are any.
        pub infrastructure: Option<GatewayInfrastructure>,

        /// Client certificates: those that clients must have, and that of the Gateway for its back ends.
        pub tls: Option<GatewayTls>,
    }

    /// Client certificates of a Gateway.
    #[derive(Eq)]
    pub struct GatewayTls {
        /// For back ends.
        pub backend: Option<GatewayBackendTls>,

        /// Of clients.
        pub frontend: Option<FrontendTls>,
    }

    /// What a Gateway shows to back ends with TLS.
    #[derive(Eq)]
    pub struct GatewayBackendTls {
        /// A Secret with its certificate.
        pub client_certificate_ref: Option<SecretObjectReference>,
    }

    /// What a Gateway demands of clients with TLS.
    #[derive(Eq)]
    pub struct FrontendTls {
        /// On ports that are not listed.
        always pub default: FrontendTlsConfig,

        /// On single ports.
        pub per_port: Vec<FrontendTlsPort>,
    }

    /// What a Gateway demands of clients on a port.
    #[derive(Eq)]
    pub struct FrontendTlsPort {
        /// The port of listeners.
        always pub port: i32,

        /// What it demands.
        always pub tls: FrontendTlsConfig,
    }

    /// What a Gateway demands of clients.
    #[derive(Eq)]
    pub struct FrontendTlsConfig {
        /// How certificates of clients are checked. Absent means that clients need none.
        pub validation: Option<FrontendTlsValidation>,
    }

    /// How certificates of clients are checked.
    #[derive(Eq)]
    pub struct FrontendTlsValidation {
        /// Objects with the certificates of CAs.
        always pub ca_certificate_refs: Vec<SecretObjectReference>,

        /// `AllowValidOnly` (the default), or `AllowInsecureFallback`, which lets everybody in.
        pub mode: Option<String>,
    }

    /// What the objects that are made for a Gateway shall be like.
    #[derive(Eq)]
    pub struct GatewayInfrastructure {
        /// Labels of the objects.
        pub labels: BTreeMap<String, String>,

        /// Annotations of the objects.
        pub annotations: BTreeMap<String, String>,

        /// An object with further parameters, of a kind that the implementation knows.
        pub parameters_ref: Option<LocalObjectReference>,
    }

    /// Which ListenerSets may add listeners to a Gateway.
    pub struct AllowedListeners {
        /// Namespaces of the ListenerSets.
        pub namespaces: Option<RouteNamespaces>,
    }

    /// One thing a Gateway listens on.
    pub struct Listener {
        /// Name, unique in the Gateway.
        always pub name: String,

        /// Host name to match. Absent matches all.
        pub hostname: Option<String>,

        /// Port to listen on.
        always pub port: i32,

        /// HTTP, HTTPS, TLS, TCP or UDP.
        always pub protocol: String,

        /// Certificates of an HTTPS or TLS listener.
        pub tls: Option<ListenerTls>,

        /// Which routes may attach.
        pub allowed_routes: Option<AllowedRoutes>,

        /// What happens to requests before their route is looked for. Since Gateway API 1.7, experimental.
        pub filters: Option<Value>,
    }

    /// TLS of a listener.
    #[derive(Eq)]
    pub struct ListenerTls {
        /// Whether the Gateway terminates TLS (`Terminate`, the default) or passes it on.
        pub mode: Option<String>,

        /// Secrets with the certificates.
        pub certificate_refs: Vec<SecretObjectReference>,
    }

    /// Which routes may attach to a listener.
    pub struct AllowedRoutes {
        /// Namespaces of the routes.
        pub namespaces: Option<RouteNamespaces>,

        /// Kinds of the routes.
        pub kinds: Vec<RouteGroupKind>,
    }

    /// Namespaces from which routes may attach.
    pub struct RouteNamespaces {
        /// All, those selected, or only the same namespace.
        pub from: Option<String>,

        /// Labels of the namespaces, with `from: Selector`.
        pub selector: Option<LabelSelector>,
    }

    /// A kind of route.
    #[derive(Eq)]
    pub struct RouteGroupKind {
        /// API group of the route.
        pub group: Option<String>,

        /// Kind of the route.
        always pub kind: String,
    }

    /// What was observed of a Gateway.
    pub struct GatewayStatus {
        /// Addresses it has.
        pub addresses: Vec<GatewayAddress>,

        /// How many ListenerSets add listeners to it.
        pub attached_listener_sets: Option<i32>,

        /// Accepted, Programmed.
        pub conditions: Vec<Condition>,

        /// State of each listener.
        pub listeners: Vec<ListenerStatus>,
    }

    /// An address of a Gateway.
    #[derive(Eq)]
    pub struct GatewayAddress {
        /// IPAddress, Hostname, or a type of the implementation.
        #[serde(rename = "type")]
        pub type_: Option<String>,

        /// The address. In a spec, an empty one leaves the choice to the implementation.
        pub value: String,

        /// From where it can be reached. Absent or empty leaves that to the implementation. Since Gateway API 1.7, experimental.
        pub routability: Option<String>,
    }

    /// State of a listener.
    pub struct ListenerStatus {
        /// Name of the listener.
        always pub name: String,

        /// Kinds of routes that can attach.
        always pub supported_kinds: Vec<RouteGroupKind>,

        /// Routes that attach.
        always pub attached_routes: i32,

        /// Accepted, Programmed, ResolvedRefs.
        always pub conditions: Vec<Condition>,
    }
}
