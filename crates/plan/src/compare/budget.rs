//! PodDisruptionBudgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::{Compare, carry_over_metadata, metadata_differs, stored};

impl Compare for PodDisruptionBudget {
    const SPEC: &'static str = "policy.v1.PodDisruptionBudgetSpec";

    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata)
            || stored(Self::SPEC, &self.spec) != stored(Self::SPEC, &live.spec)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }
}
