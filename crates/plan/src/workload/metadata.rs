//! The labels and annotations that are copied from the service to its pods.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_api::{annotations, labels};

use crate::{context::Context, labels::Map};

/// Copies the keys that other controllers act on from the service's metadata to `target`.
pub(super) fn propagate_from_service(context: &Context, target: &mut ObjectMeta) {
    let metadata = &context.service.metadata;
    copy(metadata.labels.as_ref(), &labels::PROPAGATED_PREFIXES, &mut target.labels);
    copy(metadata.annotations.as_ref(), &annotations::PROPAGATED_PREFIXES, &mut target.annotations);
}

/// Copies annotations of the service whose keys start with one of these prefixes.
pub(super) fn propagate_annotations(context: &Context, prefixes: &[&str], target: &mut ObjectMeta) {
    copy(context.service.metadata.annotations.as_ref(), prefixes, &mut target.annotations);
}

/// Copies the labels and annotations of the workload's spec to its pods.
pub(super) fn propagate_from_spec(labels: &Map, annotations: &Map, target: &mut ObjectMeta) {
    if !labels.is_empty() {
        target.labels.get_or_insert_default().extend(labels.clone());
    }
    let annotations: Map = without_routing_marks(annotations);
    if !annotations.is_empty() {
        target.annotations.get_or_insert_default().extend(annotations);
    }
}

/// Removes the annotations that are for the route, not for pods: a change of routing must not restart pods.
pub(super) fn without_routing_marks(map: &Map) -> Map {
    map.iter()
        .filter(|(key, _)| !annotations::ROUTING.contains(&key.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

fn copy(from: Option<&Map>, prefixes: &[&str], to: &mut Option<Map>) {
    for (key, value) in from.into_iter().flatten() {
        if prefixes.iter().any(|prefix| key.starts_with(prefix)) {
            to.get_or_insert_default().insert(key.clone(), value.clone());
        }
    }
}
