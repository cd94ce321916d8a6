//! Checks whether Longboat is installed at all.

use super::definitions;
use crate::{
    facts::Facts,
    finding::{Cause, Finding},
};

/// Returns a finding if nothing is installed. On an empty cluster, every other check would only repeat that.
pub(crate) fn missing(facts: &Facts) -> Option<Finding> {
    let is_there =
        |name: &&str| facts.definitions.contains_key(*name) || facts.unseen_definitions.contains(*name);
    if definitions::OURS.iter().any(is_there)
        || facts.controller.is_some()
        || !facts.mutating.is_empty()
        || !facts.validating.is_empty()
    {
        return None;
    }
    let cause = "Longboat is not installed: the cluster has no CRD of LLMInferenceServices, no controller and no \
         webhooks";
    let fix = "run `longboat install --set image=REGISTRY/longboat:TAG` with an image of this build";
    let object = format!("Installation in namespace {}", facts.snapshot.system_namespace);
    Some(Cause::new("NotInstalled", cause, fix).broken(object))
}
