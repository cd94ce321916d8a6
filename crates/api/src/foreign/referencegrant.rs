//! ReferenceGrant, `gateway.networking.k8s.io/v1beta1`: the version that every release of the Gateway API serves.

use crate::resource::kind;
use crate::wire::go_struct;

kind! {
    /// A ReferenceGrant: which objects of other namespaces may refer to objects of its namespace.
    pub struct ReferenceGrant: "gateway.networking.k8s.io", "v1beta1", "referencegrants", Namespaced {
        spec: ReferenceGrantSpec,
        status: serde_json::Value,
    }
}

go_struct! {
    /// Which references are permitted: each of `from` to each of `to`.
    #[derive(Eq)]
    pub struct ReferenceGrantSpec {
        /// Objects with references.
        always pub from: Vec<ReferenceGrantFrom>,

        /// Objects that they may refer to.
        always pub to: Vec<ReferenceGrantTo>,
    }

    /// Objects of one kind and namespace, which have references.
    #[derive(Eq)]
    pub struct ReferenceGrantFrom {
        /// API group of the objects; empty for the core group.
        always pub group: String,

        /// Kind of the objects.
        always pub kind: String,

        /// Namespace of the objects.
        always pub namespace: String,
    }

    /// Objects of one kind in the namespace of the grant, to which references are permitted.
    #[derive(Eq)]
    pub struct ReferenceGrantTo {
        /// API group of the objects; empty for the core group.
        always pub group: String,

        /// Kind of the objects.
        always pub kind: String,

        /// Name of the only object. Absent means all objects of the kind.
        pub name: Option<String>,
    }
}
