//! Deployments.

use k8s_openapi::api::apps::v1::Deployment;

use super::{Compare, carry_over_metadata, keep_pod_metadata, pods_differ, stored};

impl Compare for Deployment {
    const SPEC: &'static str = "apps.v1.DeploymentSpec";

    /// Pod specs must be equal, so that a field that is removed from the template is also removed from the pods. The metadata
    /// of the pod template may have additional entries: `kubectl rollout restart` adds an annotation there.
    fn content_differs(&self, live: &Self) -> bool {
        let (desired, present) = (stored(Self::SPEC, &self.spec), stored(Self::SPEC, &live.spec));
        ["replicas", "selector", "strategy"].iter().any(|field| desired[field] != present[field])
            || pods_differ(&desired["template"], &present["template"])
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
        let [stored_desired, stored_live] = [&*self, live].map(|object| stored(Self::SPEC, &object.spec));
        let rolls = pods_differ(&stored_desired["template"], &stored_live["template"]);
        let (Some(desired), Some(present)) = (&mut self.spec, &live.spec) else { return };
        // A change of the pods resumes the Deployment, as with the reference: otherwise it would never take effect.
        if !rolls {
            desired.paused = desired.paused.or(present.paused);
        }
        // The plan sets none of these, so they are what a user or the server has set.
        desired.min_ready_seconds = desired.min_ready_seconds.or(present.min_ready_seconds);
        desired.revision_history_limit = desired.revision_history_limit.or(present.revision_history_limit);
        desired.progress_deadline_seconds =
            desired.progress_deadline_seconds.or(present.progress_deadline_seconds);
        if !rolls {
            // If the pods roll anyway, what `kubectl rollout restart` has added there has done its work.
            keep_pod_metadata(&mut desired.template, &present.template);
        }
    }

    /// Only the selector is immutable. The new Deployment adopts the pods of the old one, because its selector matches them.
    fn must_be_recreated(&self, live: &Self) -> bool {
        let selector = |object: &Self| object.spec.as_ref().map(|spec| spec.selector.clone());
        selector(self) != selector(live)
    }

    const ORPHANS_DEPENDENTS: bool = true;

    fn accounts(&self) -> Vec<&str> {
        let pod = self.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        pod.and_then(|pod| pod.service_account_name.as_deref()).into_iter().collect()
    }
}
