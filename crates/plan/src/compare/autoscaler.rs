//! Autoscalers: HorizontalPodAutoscalers and ScaledObjects.

use k8s_openapi::{
    api::autoscaling::v2::HorizontalPodAutoscaler, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::foreign::scaledobject::ScaledObject;

use super::{Compare, carry_over_metadata, stored};
use crate::{labels::Map, workload::scaling::variant_keys};

macro_rules! compare_autoscaler {
    ($($kind:ty: $spec:literal),* $(,)?) => {
        $(impl Compare for $kind {
            const SPEC: &'static str = $spec;

            fn content_differs(&self, live: &Self) -> bool {
                has_stale_variant_keys(&self.metadata, &live.metadata)
                    || stored(Self::SPEC, &self.spec) != stored(Self::SPEC, &live.spec)
            }

            /// Keeps all other metadata that others added, KEDA's label and finalizer included.
            fn carry_over(&mut self, live: &Self) {
                carry_over_all_but_variant_keys(&mut self.metadata, &live.metadata);
            }
        })*
    };
}

compare_autoscaler! {
    HorizontalPodAutoscaler: "autoscaling.v2.HorizontalPodAutoscalerSpec",
    ScaledObject: "keda.v1alpha1.ScaledObjectSpec",
}

/// Whether the live object has a key of the Workload Variant Autoscaler that is no longer wanted. That autoscaler acts on
/// every object that has its keys.
fn has_stale_variant_keys(desired: &ObjectMeta, live: &ObjectMeta) -> bool {
    let stale = |desired: Option<&Map>, live: Option<&Map>| {
        variant_keys().any(|key| {
            let has = |map: Option<&Map>| map.is_some_and(|map| map.contains_key(key));
            has(live) && !has(desired)
        })
    };
    stale(desired.annotations.as_ref(), live.annotations.as_ref())
        || stale(desired.labels.as_ref(), live.labels.as_ref())
}

fn carry_over_all_but_variant_keys(desired: &mut ObjectMeta, live: &ObjectMeta) {
    let mut live = live.clone();
    for map in [&mut live.annotations, &mut live.labels].into_iter().flatten() {
        for key in variant_keys() {
            map.remove(key);
        }
    }
    carry_over_metadata(desired, &live);
}
