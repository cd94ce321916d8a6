//! InferencePool, `inference.networking.k8s.io/v1`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::resource::kind;
use crate::wire::go_struct;

kind! {
    /// An InferencePool: model server pods, and the picker that chooses among them.
    pub struct InferencePool: "inference.networking.k8s.io", "v1", "inferencepools", Namespaced {
        spec: InferencePoolSpec,
        status: InferencePoolStatus,
    }
}

go_struct! {
    /// Model server pods, and the picker that chooses among them.
    #[derive(Eq)]
    pub struct InferencePoolSpec {
        /// Which pods belong to the pool.
        pub selector: LabelSelector,

        /// Ports of the model servers.
        pub target_ports: Vec<PoolPort>,

        /// Protocol of the model servers.
        pub app_protocol: String,

        /// The picker that chooses among the pods of the pool.
        pub endpoint_picker_ref: EndpointPickerRef,
    }

    /// Labels that pods have.
    #[derive(Eq)]
    pub struct LabelSelector {
        /// Labels that a pod of the pool has; it needs all of them.
        pub match_labels: BTreeMap<String, String>,
    }

    /// A port by its number.
    #[derive(Eq)]
    pub struct PoolPort {
        /// Number of the port, 1 to 65535.
        pub number: i32,
    }

    /// A picker, and what happens without it.
    #[derive(Eq)]
    pub struct EndpointPickerRef {
        /// API group; empty for the core group.
        pub group: Option<String>,

        /// Kind of the picker.
        pub kind: String,

        /// Name of the picker.
        pub name: String,

        /// Port of the picker; needed for a Service.
        pub port: Option<PoolPort>,

        /// What happens to requests when the picker does not answer.
        pub failure_mode: String,
    }

    /// What was observed of a pool.
    pub struct InferencePoolStatus {
        /// What each Gateway says.
        pub parents: Vec<PoolParentStatus>,
    }

    /// What one Gateway says of a pool.
    pub struct PoolParentStatus {
        /// Accepted, ResolvedRefs.
        pub conditions: Vec<Condition>,

        /// The Gateway.
        pub parent_ref: PoolParentReference,

        /// Who says so.
        pub controller_name: String,
    }

    /// A Gateway (or other parent) of a pool.
    #[derive(Eq)]
    pub struct PoolParentReference {
        /// API group of the parent.
        pub group: Option<String>,

        /// Kind of the parent.
        pub kind: String,

        /// Name of the parent.
        pub name: String,

        /// Namespace of the parent. Absent means that of the pool.
        pub namespace: String,
    }
}
