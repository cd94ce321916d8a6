//! Does the controller run?

use crate::{
    chain::pods,
    facts::Facts,
    finding::{Cause, Finding},
};

/// The Deployment of the controller; the reference's has the same name.
pub(crate) const NAME: &str = "llmisvc-controller-manager";

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.local {
        return;
    }
    let namespace = &facts.snapshot.system_namespace;
    let object = format!("Deployment {namespace}/{NAME}");
    let Some(deployment) = &facts.controller else {
        let cause = "there is no controller: services are stored, and nothing is made of them";
        let fix = format!("longboat install --namespace {namespace}");
        findings.push(Cause::new("ControllerMissing", cause, fix).breaks(object));
        return;
    };
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    if available > 0 {
        return;
    }
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    if wanted == 0 {
        let fix = format!("kubectl scale -n {namespace} deployment/{NAME} --replicas=2");
        findings.push(Cause::new("ControllerStopped", "it is scaled to zero", fix).breaks(object));
        return;
    }
    let cause = pods::of_deployment(facts, deployment).unwrap_or_else(|| {
        let fix = format!("kubectl logs -n {namespace} deployment/{NAME}");
        Cause::new("ControllerNotReady", "none of its pods is ready", fix)
    });
    findings.push(cause.breaks(object));
}
