//! ResourceClaimTemplates.

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

use super::{Compare, carry_over_metadata, metadata_differs, same};
use crate::server_defaults;

impl Compare for ResourceClaimTemplate {
    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata) || self.is_fixed(live)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }

    fn fill_in_defaults(&mut self) {
        server_defaults::resource_claim_template(&mut self.spec);
    }

    /// The spec of a template is immutable. Pods that have their claims keep them.
    fn is_fixed(&self, live: &Self) -> bool {
        let complete = |object: &Self| {
            let mut spec = object.spec.clone();
            server_defaults::resource_claim_template(&mut spec);
            spec
        };
        !same(&complete(self), &complete(live))
    }
}
