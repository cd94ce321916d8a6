//! Checks whether the controller runs.

use k8s_openapi::api::apps::v1::Deployment;
use longboat_api::names::CONTROLLER;
use longboat_key::Namespace;

use crate::{
    chain::pods,
    facts::Facts,
    finding::{Cause, Finding},
    reinstall,
};

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.local {
        return;
    }
    let namespace = &facts.snapshot.system_namespace;
    let object = format!("Deployment {namespace}/{CONTROLLER}");
    let Some(deployment) = &facts.controller else {
        let cause = "there is no controller, so nothing is created for the services";
        let fix = reinstall::command(facts, "");
        findings.push(Cause::new("ControllerMissing", cause, fix).broken(object));
        return;
    };
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    if available > 0 {
        return;
    }
    let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    if desired == 0 {
        let fix = format!("kubectl scale -n {namespace} deployment/{CONTROLLER} --replicas=2");
        findings
            .push(Cause::new("ControllerStopped", "the Deployment is scaled to zero", fix).broken(object));
        return;
    }
    let cause = pods::of_deployment(facts, deployment).unwrap_or_else(|| {
        let fix = format!("kubectl logs -n {namespace} deployment/{CONTROLLER}");
        Cause::new("ControllerNotReady", "none of its pods is ready", fix)
    });
    findings.push(cause.broken(object));
}

/// The namespaces to which the controller is limited. Empty if it watches all.
pub(crate) fn watched(deployment: Option<&Deployment>) -> Vec<Namespace> {
    values_of("--namespace", deployment).into_iter().map(|one| Namespace(one.into())).collect()
}

/// The namespaces whose Secrets the controller may use. Empty if it may use all.
pub(crate) fn secret_namespaces(deployment: Option<&Deployment>) -> Vec<Namespace> {
    values_of("--secret-namespace", deployment).into_iter().map(|one| Namespace(one.into())).collect()
}

/// The values of a flag of the controller.
fn values_of(flag: &str, deployment: Option<&Deployment>) -> Vec<String> {
    let pod = deployment.and_then(|found| found.spec.as_ref()?.template.spec.as_ref());
    let containers = pod.into_iter().flat_map(|pod| &pod.containers);
    let words: Vec<&String> =
        containers.flat_map(|found| found.command.iter().chain(&found.args).flatten()).collect();
    let mut all = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.split_once('=') {
            Some((name, value)) if name == flag => all.push(value.to_owned()),
            None if *word == flag => all.extend(words.get(at + 1).map(ToString::to_string)),
            _ => {}
        }
    }
    all
}
