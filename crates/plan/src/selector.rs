//! How a Deployment finds its pods.

use k8s_openapi::{api::apps::v1::DeploymentSpec, apimachinery::pkg::apis::meta::v1::LabelSelector};

use crate::labels::Map;

/// Selects by the labels that are ours, whatever the user adds: a selector is fixed at creation.
///
/// The reference selects by every pod label instead. What it made can only be taken over by the selector that it has, as
/// long as the pods still match that.
pub(crate) fn plan(own: Map, pod: &Map, live: Option<&DeploymentSpec>) -> LabelSelector {
    let present = live.and_then(|spec| spec.selector.match_labels.as_ref());
    let reachable = present.filter(|present| present.iter().all(|(key, value)| pod.get(key) == Some(value)));
    // A label of ours that the user overrides on the pods selects by the user's value.
    let ours = || {
        own.into_iter().map(|(key, value)| (key.clone(), pod.get(&key).cloned().unwrap_or(value))).collect()
    };
    LabelSelector { match_labels: Some(reachable.cloned().unwrap_or_else(ours)), match_expressions: None }
}
