//! ResourceClaimTemplates.

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

use super::{Compare, stored};

impl Compare for ResourceClaimTemplate {
    const SPEC: &'static str = "resource.v1.ResourceClaimTemplateSpec";

    fn content_differs(&self, live: &Self) -> bool {
        self.must_be_recreated(live)
    }

    /// The spec of a template is immutable. Pods that have their claims keep them.
    fn must_be_recreated(&self, live: &Self) -> bool {
        stored(Self::SPEC, &self.spec) != stored(Self::SPEC, &live.spec)
    }
}
