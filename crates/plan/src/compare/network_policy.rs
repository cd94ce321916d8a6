//! NetworkPolicies.

use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::{Compare, carry_over_metadata, metadata_differs, stored};

impl Compare for NetworkPolicy {
    const SPEC: &'static str = "networking.v1.NetworkPolicySpec";

    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata)
            || stored(Self::SPEC, &self.spec) != stored(Self::SPEC, &live.spec)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }
}
