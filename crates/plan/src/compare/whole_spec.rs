//! Kinds whose whole spec this controller decides.

use k8s_openapi::api::{networking::v1::NetworkPolicy, policy::v1::PodDisruptionBudget};
use longboat_api::foreign::{inferencepool, inferencepool_x};

use super::{Compare, stored};

macro_rules! compare_whole_spec {
    ($($kind:ty: $spec:literal),* $(,)?) => {
        $(impl Compare for $kind {
            const SPEC: &'static str = $spec;

            fn content_differs(&self, live: &Self) -> bool {
                stored(Self::SPEC, &self.spec) != stored(Self::SPEC, &live.spec)
            }
        })*
    };
}

compare_whole_spec! {
    inferencepool::InferencePool: "inference.v1.InferencePoolSpec",
    inferencepool_x::InferencePool: "inference.v1alpha2.InferencePoolSpec",
    NetworkPolicy: "networking.v1.NetworkPolicySpec",
    PodDisruptionBudget: "policy.v1.PodDisruptionBudgetSpec",
}
