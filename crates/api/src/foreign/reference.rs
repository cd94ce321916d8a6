//! References between Gateway API objects.

use crate::{groups, wire::go_struct};

go_struct! {
    /// A Gateway (or other parent) that a route attaches to.
    #[derive(Eq, PartialOrd, Ord)]
    pub struct ParentReference {
        /// API group of the parent.
        pub group: Option<String>,

        /// Kind of the parent.
        pub kind: Option<String>,

        /// Namespace of the parent. Absent means that of the route.
        pub namespace: Option<String>,

        /// Name of the parent.
        always pub name: String,

        /// Listener of the parent. Absent means all.
        pub section_name: Option<String>,

        /// Listener port of the parent. Absent means all.
        pub port: Option<i32>,
    }

    /// Where a route sends requests.
    #[derive(Eq)]
    pub struct BackendObjectReference {
        /// API group of the back end; empty for the core group.
        pub group: Option<String>,

        /// Kind of the back end.
        pub kind: Option<String>,

        /// Name of the back end.
        always pub name: String,

        /// Namespace of the back end. Absent means that of the route.
        pub namespace: Option<String>,

        /// Port of the back end; needed for a Service.
        pub port: Option<i32>,
    }

    /// A Secret (or, in a list of CA certificates, a ConfigMap).
    #[derive(Eq)]
    pub struct SecretObjectReference {
        /// API group of the object; empty for the core group.
        pub group: Option<String>,

        /// Kind of the object. Absent means Secret.
        pub kind: Option<String>,

        /// Name of the object.
        always pub name: String,

        /// Namespace of the object. Absent means that of the object with the reference.
        pub namespace: Option<String>,
    }

    /// An object in the namespace of the object with the reference.
    #[derive(Eq)]
    pub struct LocalObjectReference {
        /// API group of the object; empty for the core group.
        always pub group: String,

        /// Kind of the object.
        always pub kind: String,

        /// Name of the object.
        always pub name: String,
    }
}

// === impl ParentReference ===

impl ParentReference {
    /// Whether the parent is a Gateway. A route of a service mesh has a Service as its parent (GAMMA).
    pub fn is_gateway(&self) -> bool {
        self.group.as_deref().unwrap_or(groups::GATEWAY) == groups::GATEWAY
            && self.kind.as_deref().unwrap_or("Gateway") == "Gateway"
    }
}
