//! LeaderWorkerSet, `leaderworkerset.x-k8s.io/v1`: replicas that are groups of pods.

use k8s_openapi::{
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString},
};
use serde_json::Value;

use crate::resource::kind;
use crate::wire::go_struct;

kind! {
    /// A LeaderWorkerSet: groups of pods that come, serve and go together.
    pub struct LeaderWorkerSet: "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", Namespaced {
        spec: LeaderWorkerSetSpec,
        status: LeaderWorkerSetStatus,
    }
}

go_struct! {
    /// How many groups there are, and what a group is.
    pub struct LeaderWorkerSetSpec {
        /// Number of groups.
        pub replicas: Option<i32>,

        /// What a group is.
        always pub leader_worker_template: LeaderWorkerTemplate,

        /// How changes are rolled out.
        pub rollout_strategy: Option<RolloutStrategy>,

        /// When workers start: with the leader's pod (`LeaderCreated`), or once it is ready (`LeaderReady`).
        pub startup_policy: Option<String>,

        /// How pods find each other.
        pub network_config: Option<Value>,
    }

    /// What a group of pods is.
    pub struct LeaderWorkerTemplate {
        /// The first pod of a group; like the others where absent.
        pub leader_template: Option<PodTemplateSpec>,

        /// The other pods of a group.
        always pub worker_template: PodTemplateSpec,

        /// Pods in a group, the leader among them.
        pub size: Option<i32>,

        /// What happens to a group of which a pod restarts.
        pub restart_policy: Option<String>,

        /// Parts of a group that are placed together. Fixed at creation.
        pub sub_group_policy: Option<SubGroupPolicy>,
    }

    /// Parts of a group that are placed together.
    #[derive(Eq)]
    pub struct SubGroupPolicy {
        /// Whether the leader is in the first part.
        pub sub_group_policy_type: Option<String>,

        /// Pods in a part.
        pub sub_group_size: Option<i32>,
    }

    /// How changes are rolled out.
    #[derive(Eq)]
    pub struct RolloutStrategy {
        /// `RollingUpdate` is all there is.
        #[serde(rename = "type")]
        always pub type_: String,

        /// How many groups at once.
        pub rolling_update_configuration: Option<RollingUpdateConfiguration>,
    }

    /// How many groups change at once.
    #[derive(Eq)]
    pub struct RollingUpdateConfiguration {
        /// Groups that may be missing.
        pub max_unavailable: Option<IntOrString>,

        /// Groups that may be too many.
        pub max_surge: Option<IntOrString>,
    }

    /// What was observed of a LeaderWorkerSet.
    pub struct LeaderWorkerSetStatus {
        /// Available, Progressing, UpdateInProgress.
        pub conditions: Vec<Condition>,

        /// Groups all of whose pods are ready.
        pub ready_replicas: Option<i32>,

        /// Groups of the newest revision.
        pub updated_replicas: Option<i32>,

        /// Groups.
        pub replicas: Option<i32>,

        /// Selects the pods that an autoscaler counts.
        pub hpa_pod_selector: Option<String>,
    }
}
