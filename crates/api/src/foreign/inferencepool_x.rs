//! InferencePool, `inference.networking.x-k8s.io/v1alpha2`: the older form, which some gateways still need. Services of `v1alpha1` embed
//! its spec.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;

use crate::resource::kind;
use crate::{schema, wire::go_struct};

kind! {
    /// An InferencePool in its older form.
    pub struct InferencePool: "inference.networking.x-k8s.io", "v1alpha2", "inferencepools", Namespaced {
        spec: InferencePoolSpec,
        status: InferencePoolStatus,
    }
}

go_struct! {
    /// The managed InferencePool in the older form, as `inference.networking.x-k8s.io/v1alpha2` has it.
    #[derive(Eq, JsonSchema)]
    pub struct InferencePoolSpec {
        /// Labels of the pods that belong to the pool; a pod needs all of them.
        #[schemars(schema_with = "schema::plain_selector", extend("x-required" = true))]
        always pub selector: BTreeMap<String, String>,

        /// Port on which the model servers listen.
        #[schemars(extend("x-required" = true))]
        always pub target_port_number: i32,

        /// The picker that chooses among the pods of the pool.
        always pub extension_ref: Extension,
    }

    /// A picker, in the older form.
    #[derive(Eq, JsonSchema)]
    pub struct Extension {
        /// API group of the picker; empty for the core group, where Services are.
        #[schemars(schema_with = "schema::group")]
        pub group: Option<String>,

        /// Kind of the picker. Absent means `Service`.
        #[schemars(schema_with = "schema::kind")]
        pub kind: Option<String>,

        /// Name of the picker, in the namespace of the service.
        #[schemars(schema_with = "schema::object_name", extend("x-required" = true))]
        always pub name: String,

        /// Port of the picker. Absent means 9002 for a Service.
        #[schemars(schema_with = "schema::port")]
        pub port_number: Option<i32>,

        /// What happens to a request when the picker does not answer: `FailOpen` sends it to any pod, `FailClose` refuses it.
        #[schemars(extend("enum" = ["FailOpen", "FailClose"], "x-required" = true))]
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
