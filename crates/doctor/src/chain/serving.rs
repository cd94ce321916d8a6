//! The cause if a service that reports Ready is broken. The controller does not see problems of servers, of pickers, and of
//! the path to them.

use std::{collections::BTreeMap, time::SystemTime};

use longboat_api::{
    shared_picker::{PICKER, SHARED},
    v1alpha2::LLMInferenceService,
};
use longboat_key::{Name, Namespace};
use longboat_plan::{Snapshot, names};

use super::{pods, workloads};
use crate::{facts::Facts, finding::Cause};

/// Returns what is wrong although all conditions hold.
pub(crate) fn cause(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    if is_scaled_to_zero(&facts.snapshot, service) {
        return certificate(facts, service);
    }
    certificate(facts, service)
        .or_else(|| endpoints(facts, service))
        .or_else(|| address(service))
        .or_else(|| answers(facts, service))
}

/// Whether a scaler has taken all replicas away. The first request brings them back.
pub(crate) fn is_scaled_to_zero(snapshot: &Snapshot, service: &LLMInferenceService) -> bool {
    let (namespace, own) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    let deployment = snapshot.deployments.get(namespace, Name(&names::workload(own)));
    let group = snapshot.leader_worker_sets.get(namespace, Name(&names::workload_group(own)));
    let replicas = deployment
        .and_then(|deployment| deployment.spec.as_ref()?.replicas)
        .or_else(|| group.and_then(|group| group.spec.replicas));
    replicas == Some(0)
}

fn certificate(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let (namespace, own) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    let name = names::tls_secret(own);
    let secret = facts.snapshot.secrets.get(namespace, Name(&name))?;
    let pem = secret.data.as_ref()?.get("tls.crt")?;
    let all = longboat_tls::certificates(&String::from_utf8_lossy(&pem.0)).unwrap_or_default();
    let over = all.first().is_none_or(|found| found.validity.not_after < SystemTime::now());
    over.then(|| {
        let fix = format!(
            "check that the controller runs, then run `kubectl delete secret -n {namespace} {name}`: the \
             controller issues a new certificate"
        );
        Cause::new(
            "CertificateEnded",
            format!("the certificate in Secret {namespace}/{name} has expired"),
            fix,
        )
    })
}

/// Whether the shared picker picks, so that the picker of the service has no pods. If it does not, the service is not ready.
fn shares_picker(facts: &Facts, service: &LLMInferenceService) -> bool {
    let (namespace, own) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    let picker = facts.snapshot.deployments.get(namespace, Name(&names::scheduler(own)));
    picker.is_some_and(|picker| {
        let label = picker.metadata.labels.as_ref().and_then(|labels| labels.get(PICKER));
        let replicas = picker.spec.as_ref().and_then(|spec| spec.replicas);
        label.is_some_and(|label| label == SHARED) && replicas == Some(0)
    })
}

/// Returns a cause if a Service through which requests go has no ready pods.
fn endpoints(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let (namespace, own) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    let scheduled = service.status.as_ref()?.workloads.as_ref()?.scheduler.is_some();
    let picker = (scheduled && !shares_picker(facts, service)).then(|| names::scheduler_service(own));
    [Some(names::workload_service(own)), picker].into_iter().flatten().find_map(|name| {
        let found = facts.snapshot.services.get(namespace, Name(&name))?;
        let none = BTreeMap::new();
        let selector = found.spec.as_ref().and_then(|spec| spec.selector.as_ref()).unwrap_or(&none);
        // Without a selector, somebody else writes the endpoints.
        if selector.is_empty() || pods::selected(facts, namespace, selector).any(pods::is_ready) {
            return None;
        }
        let step = format!("Service {namespace}/{name}");
        let cause = pods::selected(facts, namespace, selector).next().map_or_else(
            || {
                let fix = format!(
                    "compare the labels in `kubectl get pods -n {namespace} --show-labels` with the \
                     selector of the Service"
                );
                Cause::new("NoEndpoints", "no pod has the labels that the Service selects", fix)
            },
            |_| pods::first(facts, namespace, selector).unwrap_or_else(|| workloads::no_ready_pod(namespace)),
        );
        Some(cause.through(step))
    })
}

fn address(service: &LLMInferenceService) -> Option<Cause> {
    let status = service.status.as_ref()?;
    (service.spec.route().is_some() && status.url.is_none()).then(|| {
        let fix = "run `kubectl get gateway -A` to see the address of the Gateway, and check the Gateway's \
             Service";
        Cause::new("NoAddress", "the route is accepted, but its Gateway has no address", fix)
    })
}

/// Returns a cause if the service does not respond to requests.
fn answers(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let (namespace, own) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    let answers = facts.answers.get(&format!("{namespace}/{own}"))?;
    let url = service.status.as_ref()?.url.as_deref().unwrap_or_default();
    // A refusal such as 401 or 429 shows that the path works. A 404 shows that no rule leads to the model server.
    let fine = |answer: &Result<u16, String>| {
        answer.as_ref().is_ok_and(|code| (200..500).contains(code) && *code != 404)
    };
    let outcome = |answer: &Result<u16, String>| match answer {
        Ok(code) => format!("answers {code}"),
        Err(error) => format!("does not answer: {error}"),
    };
    let at_url = answers.at_url.as_ref().filter(|answer| !fine(answer))?;
    let (problem, step) = (outcome(at_url), format!("GET {}/v1/models", url.trim_end_matches('/')));
    Some(match &answers.at_workload {
        Some(direct) if !fine(direct) => {
            let fix =
                format!("kubectl logs -n {namespace} -l app.kubernetes.io/name={own} -c main --tail=100");
            let cause = format!("the model server itself {}", outcome(direct));
            Cause::new("ServerFails", cause, fix).through(step)
        }
        Some(_) if matches!(at_url, Ok(404)) => {
            let fix = format!(
                "compare the rules of the route with what the model server serves, which is /v1/models: `kubectl get httproute -n \
                 {namespace} {} -o yaml`",
                names::route(own)
            );
            let cause =
                format!("{url} {problem}, while the model server serves this path: no rule leads there");
            Cause::new("RouteMisses", cause, fix).through(step)
        }
        Some(_) => {
            let fix = "check the Gateway's data plane (its pods and its Service), and firewalls and the network \
                 between this machine and the Gateway";
            Cause::new(
                "GatewayFails",
                format!("{url} {problem}, while the model server behind it answers"),
                fix,
            )
            .through(step)
        }
        None => {
            let fix = format!(
                "run `kubectl port-forward -n {namespace} svc/{} 8000`, and check whether the service \
                 answers at that port",
                names::workload_service(own)
            );
            Cause::new("NoAnswer", format!("{url} {problem}"), fix).through(step)
        }
    })
}
