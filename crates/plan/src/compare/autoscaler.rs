//! What scales workloads: HorizontalPodAutoscalers and ScaledObjects.

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec};
use longboat_api::foreign::scaledobject::ScaledObject;

use super::{Compare, carry_over_metadata, metadata_differs, same};
use crate::server_defaults;

impl Compare for HorizontalPodAutoscaler {
    fn differs(&self, live: &Self) -> bool {
        let complete = |spec: Option<&HorizontalPodAutoscalerSpec>| {
            let mut spec = spec.cloned().unwrap_or_default();
            server_defaults::autoscaler(&mut spec);
            spec
        };
        metadata_differs(&self.metadata, &live.metadata)
            || !same(&complete(self.spec.as_ref()), &complete(live.spec.as_ref()))
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }

    fn fill_in_defaults(&mut self) {
        server_defaults::autoscaler(self.spec.get_or_insert_default());
    }
}

impl Compare for ScaledObject {
    fn differs(&self, live: &Self) -> bool {
        let complete = |object: &Self| {
            let mut spec = object.spec.clone();
            server_defaults::scaled_object(&mut spec);
            spec
        };
        metadata_differs(&self.metadata, &live.metadata) || !same(&complete(self), &complete(live))
    }

    /// KEDA's own label and finalizer are kept with all others.
    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
    }

    fn fill_in_defaults(&mut self) {
        server_defaults::scaled_object(&mut self.spec);
    }
}
