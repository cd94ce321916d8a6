//! NetworkPolicies.

use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::{Compare, carry_over_metadata, metadata_differs, same};

impl Compare for NetworkPolicy {
    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata) || !same(&self.spec, &live.spec)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }
}
