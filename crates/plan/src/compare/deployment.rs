//! Deployments.

use k8s_openapi::api::{
    apps::v1::{Deployment, DeploymentSpec},
    core::v1::PodSpec,
};

use super::{Compare, carry_over_metadata, contained, metadata_differs, same};
use crate::server_defaults;

impl Compare for Deployment {
    /// Pod specs must be equal, so that a field that is removed from the template is also removed from the pods. The metadata
    /// of the pod template may have additional entries: `kubectl rollout restart` adds an annotation there.
    fn differs(&self, live: &Self) -> bool {
        let mut desired = self.spec.clone().unwrap_or_default();
        server_defaults::deployment(&mut desired);
        let none = DeploymentSpec::default();
        let present = live.spec.as_ref().unwrap_or(&none);
        let template = |spec: &DeploymentSpec| spec.template.metadata.clone().unwrap_or_default();
        let (wanted, found) = (template(&desired), template(present));
        metadata_differs(&self.metadata, &live.metadata)
            || !contained(wanted.labels.as_ref(), found.labels.as_ref())
            || !contained(wanted.annotations.as_ref(), found.annotations.as_ref())
            || desired.replicas != present.replicas
            || !same(&desired.selector, &present.selector)
            || !same(&desired.strategy, &present.strategy)
            || !same_pod(desired.template.spec.as_ref(), present.template.spec.as_ref())
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
        let (Some(desired), Some(present)) = (&mut self.spec, &live.spec) else { return };
        desired.paused = desired.paused.or(present.paused);
        desired.min_ready_seconds = desired.min_ready_seconds.or(present.min_ready_seconds);
        desired.revision_history_limit = desired.revision_history_limit.or(present.revision_history_limit);
        desired.progress_deadline_seconds =
            desired.progress_deadline_seconds.or(present.progress_deadline_seconds);
    }

    fn fill_in_defaults(&mut self) {
        server_defaults::deployment(self.spec.get_or_insert_default());
    }

    /// Only the selector is immutable. The new Deployment adopts the pods of the old one, because its selector matches them.
    fn is_fixed(&self, live: &Self) -> bool {
        let selector = |object: &Self| object.spec.as_ref().map(|spec| spec.selector.clone());
        selector(self) != selector(live)
    }

    const INHERITS: bool = true;

    fn accounts(&self) -> Vec<&str> {
        let pod = self.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        pod.and_then(|pod| pod.service_account_name.as_deref()).into_iter().collect()
    }
}

fn same_pod(desired: Option<&PodSpec>, live: Option<&PodSpec>) -> bool {
    match (desired, live) {
        // Usually the specs are equal field by field, and no tree has to be built.
        (Some(desired), Some(live)) => desired == live || same(desired, live),
        _ => desired == live,
    }
}
