//! ResourceClaimTemplates.

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

use super::{Compare, carry_over_metadata, metadata_differs, stored};

impl Compare for ResourceClaimTemplate {
    const SPEC: &'static str = "resource.v1.ResourceClaimTemplateSpec";

    fn differs(&self, live: &Self) -> bool {
        metadata_differs(&self.metadata, &live.metadata) || self.is_fixed(live)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }

    /// The spec of a template is immutable. Pods that have their claims keep them.
    fn is_fixed(&self, live: &Self) -> bool {
        stored(Self::SPEC, &self.spec) != stored(Self::SPEC, &live.spec)
    }
}
