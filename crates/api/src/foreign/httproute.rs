//! HTTPRoute, `gateway.networking.k8s.io/v1`, experimental fields included: users embed its spec.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::httproute_filter::HTTPRouteFilter;
use super::reference::{BackendObjectReference, ParentReference};
use crate::resource::kind;
use crate::wire::{self, go_struct};

kind! {
    /// An HTTPRoute: which requests go to which back ends.
    pub struct HTTPRoute: "gateway.networking.k8s.io", "v1", "httproutes", Namespaced {
        spec: HTTPRouteSpec,
        status: HTTPRouteStatus,
    }
}

go_struct! {
    /// Which requests go to which back ends.
    pub struct HTTPRouteSpec {
        /// Gateways the route attaches to.
        pub parent_refs: Vec<ParentReference>,

        /// Attach to the default Gateways.
        pub use_default_gateways: String,

        /// Host names to match. Absent matches all.
        pub hostnames: Vec<String>,

        /// Matches, filters and back ends.
        pub rules: Vec<HTTPRouteRule>,
    }

    /// Requests that match, and where they go.
    pub struct HTTPRouteRule {
        /// Name of the rule, unique in the route.
        pub name: Option<String>,

        /// What to match; one of them is enough.
        pub matches: Vec<HTTPRouteMatch>,

        /// What to change on the way.
        pub filters: Vec<HTTPRouteFilter>,

        /// Where matching requests go.
        pub backend_refs: Vec<HTTPBackendRef>,

        /// How long a request may take.
        pub timeouts: Option<HTTPRouteTimeouts>,

        /// When to try again.
        pub retry: Option<Value>,

        /// How a session stays with one back end.
        pub session_persistence: Option<Value>,
    }

    /// What to match: all of it.
    #[derive(Eq)]
    pub struct HTTPRouteMatch {
        /// How the path of the request has to look. Default: any path.
        pub path: Option<HTTPPathMatch>,

        /// Headers that the request has to have; all of them.
        pub headers: Vec<HTTPHeaderMatch>,

        /// Query parameters that the request has to have; all of them.
        pub query_params: Vec<HTTPQueryParamMatch>,

        /// Method that the request has to have. Absent means any.
        pub method: Option<String>,
    }

    /// A path to match.
    #[derive(Eq)]
    pub struct HTTPPathMatch {
        /// How to match: `Exact`, `PathPrefix` or `RegularExpression`. Default `PathPrefix`.
        #[serde(rename = "type")]
        pub type_: Option<String>,

        /// The path to compare with. Default `/`.
        pub value: Option<String>,
    }

    /// A header to match.
    #[derive(Eq)]
    pub struct HTTPHeaderMatch {
        /// How to match: `Exact` or `RegularExpression`. Default `Exact`.
        #[serde(rename = "type")]
        pub type_: Option<String>,

        /// Name of the header.
        always pub name: String,

        /// Value of the header to compare with.
        always pub value: String,
    }

    /// A query parameter to match.
    #[derive(Eq)]
    pub struct HTTPQueryParamMatch {
        /// How to match: `Exact` or `RegularExpression`. Default `Exact`.
        #[serde(rename = "type")]
        pub type_: Option<String>,

        /// Name of the parameter.
        always pub name: String,

        /// Value of the parameter to compare with.
        always pub value: String,
    }
}

/// A back end, and its share of the requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HTTPBackendRef {
    /// The back end that gets the requests.
    #[serde(flatten)]
    pub backend: BackendObjectReference,

    /// Share of the requests, in proportion to the other back ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,

    /// What to change on the way to this back end.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub filters: Vec<HTTPRouteFilter>,
}

// === impl HTTPRouteRule ===

impl HTTPRouteRule {
    /// Whether requests that match it have nowhere to go: it names no back end, and no filter of it answers them.
    pub fn has_no_destination(&self) -> bool {
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

go_struct! {
    /// How long a request may take.
    #[derive(Eq)]
    pub struct HTTPRouteTimeouts {
        /// The whole request, retries included. `0s` means no limit.
        pub request: Option<String>,

        /// One request to a back end. `0s` means no limit.
        pub backend_request: Option<String>,
    }

    /// What was observed of a route.
    pub struct HTTPRouteStatus {
        /// What each parent says.
        always pub parents: Vec<RouteParentStatus>,
    }

    /// What one parent says of a route.
    pub struct RouteParentStatus {
        /// The parent.
        always pub parent_ref: ParentReference,

        /// Who says so.
        always pub controller_name: String,

        /// Accepted, ResolvedRefs.
        pub conditions: Vec<Condition>,
    }
}
