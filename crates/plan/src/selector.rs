//! The pod selector of a Deployment.

use k8s_openapi::{api::apps::v1::DeploymentSpec, apimachinery::pkg::apis::meta::v1::LabelSelector};

use crate::labels::Map;

/// Selects by the labels that the controller sets, whatever labels the user adds, because a selector is immutable.
///
/// The reference selects by every pod label instead. Its Deployments keep their selector, as long as the pods still match it.
pub(crate) fn plan(own: Map, pod: &Map, live: Option<&DeploymentSpec>) -> LabelSelector {
    let present = live.and_then(|spec| spec.selector.match_labels.as_ref());
    let reachable = present.filter(|present| present.iter().all(|(key, value)| pod.get(key) == Some(value)));
    // If the user overrides one of our labels on the pods, the selector has the user's value.
    let ours = || {
        own.into_iter().map(|(key, value)| (key.clone(), pod.get(&key).cloned().unwrap_or(value))).collect()
    };
    LabelSelector { match_labels: Some(reachable.cloned().unwrap_or_else(ours)), match_expressions: None }
}
