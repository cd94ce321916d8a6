//! Checks whether the controller has the rights that it needs.

use longboat_api::names::CONTROLLER;

use crate::{
    facts::Facts,
    finding::{Cause, Finding},
    reinstall,
};

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.local || facts.denied.is_empty() {
        return;
    }
    let cause = format!("the controller may not {}", facts.denied.join(", "));
    let fix = format!("{}: it writes the roles and their bindings again", reinstall::command(facts, ""));
    let object = format!("ServiceAccount {}/{}", facts.snapshot.system_namespace, account(facts));
    findings.push(Cause::new("RightsMissing", cause, fix).broken(object));
}

/// The service account of the controller.
pub(crate) fn account(facts: &Facts) -> String {
    let spec = facts.controller.as_ref().and_then(|deployment| deployment.spec.as_ref());
    spec.and_then(|spec| spec.template.spec.as_ref()?.service_account_name.clone())
        .unwrap_or_else(|| CONTROLLER.to_owned())
}
