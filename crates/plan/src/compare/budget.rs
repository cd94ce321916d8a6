//! PodDisruptionBudgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::{Compare, carry_over_metadata, metadata_differs, same};

impl Compare for PodDisruptionBudget {
    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata) || !same(&self.spec, &live.spec)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }
}
