//! InferencePool, `inference.networking.x-k8s.io/v1alpha2`: the older form, which some gateways still need.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::resource::kind;
use crate::wire::go_struct;

kind! {
    /// An InferencePool in its older form.
    pub struct InferencePool: "inference.networking.x-k8s.io", "v1alpha2", "inferencepools", Namespaced {
        spec: InferencePoolSpec,
        status: InferencePoolStatus,
    }
}

go_struct! {
    /// Model server pods, and the picker that chooses among them.
    #[derive(Eq)]
    pub struct InferencePoolSpec {
        /// Labels of the pods that belong to the pool.
        always pub selector: BTreeMap<String, String>,

        /// Port of the model servers.
        always pub target_port_number: i32,

        /// The picker.
        always pub extension_ref: Extension,
    }

    /// A picker.
    #[derive(Eq)]
    pub struct Extension {
        /// API group; empty for the core group.
        pub group: Option<String>,

        /// Kind of the picker.
        pub kind: Option<String>,

        /// Name of the picker.
        always pub name: String,

        /// Port of the picker.
        pub port_number: Option<i32>,

        /// What happens to requests when the picker does not answer.
        pub failure_mode: Option<String>,
    }

    /// What was observed of a pool.
    pub struct InferencePoolStatus {
        /// What each Gateway says.
        pub parent: Vec<PoolStatus>,
    }

    /// What one Gateway says of a pool.
    pub struct PoolStatus {
        /// The Gateway.
        always pub parent_ref: ParentGatewayReference,

        /// Accepted, ResolvedRefs.
        pub conditions: Vec<Condition>,
    }

    /// A Gateway (or other parent) of a pool.
    #[derive(Eq)]
    pub struct ParentGatewayReference {
        /// API group of the parent.
        pub group: Option<String>,

        /// Kind of the parent.
        pub kind: Option<String>,

        /// Name of the parent.
        always pub name: String,

        /// Namespace of the parent. Absent means that of the pool.
        pub namespace: Option<String>,
    }
}
