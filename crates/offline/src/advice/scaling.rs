//! Triggers that KEDA cannot evaluate.

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec, WorkloadSpec};
use longboat_autoscale::{trigger_mistakes, trigger_types};
use longboat_compose::Platform;
use longboat_gateway::QUEUE_SERIES;
use longboat_key::{Name, Namespace, nearest};
use longboat_plan::{Snapshot, missing_prometheus, names};

use crate::finding::{Advice, Severity};

/// Finds a scaling by the Workload Variant Autoscaler through KEDA for which the platform names no Prometheus.
pub(super) fn without_prometheus(platform: &Platform, spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let by_wva = |half: &WorkloadSpec| {
        half.scaling.as_ref().and_then(|scaling| scaling.wva.as_ref()).is_some_and(|wva| wva.keda.is_some())
    };
    let (path, _) = spec.workloads().find(|(_, half)| by_wva(half))?;
    Some(Advice::warning(
        format!("{path}.scaling.wva.keda"),
        "NoPrometheus",
        format!("scales nothing: {}", missing_prometheus(platform)?),
        "if the cluster has other settings than these files, pass them too",
    ))
}

/// Finds a service that nothing wakes once KEDA has taken it to zero behind our gateway, which holds the requests.
pub(super) fn never_wakes(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
) -> Option<Advice> {
    let scaling = spec.workload.scaling.as_ref()?;
    let keda = scaling.keda.as_ref()?;
    let triggers = keda.triggers.as_deref().unwrap_or_default();
    if !longboat_gateway::never_wakes(keda.settings.idle_replica_count, scaling.min_replicas, triggers) {
        return None;
    }
    without_waking(snapshot, service, spec, "spec.scaling.keda.triggers")
}

/// Describes what reads only the metrics of replicas, if our gateway holds the requests of the service.
pub(crate) fn without_waking(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    path: &str,
) -> Option<Advice> {
    let own = Namespace::of(&service.metadata);
    let refs = spec.gateway_refs().iter().map(|found| (Some(found.namespace.as_str()), found.name.as_str()));
    let route = spec.route().and_then(|route| route.http.as_ref()?.spec.as_ref());
    let parents = route.iter().flat_map(|route| &route.parent_refs).filter(|parent| parent.is_gateway());
    let parents = parents.map(|parent| (parent.namespace.as_deref(), parent.name.as_str()));
    let gateway = refs.chain(parents).find_map(|(within, name)| {
        let within = within.filter(|within| !within.is_empty()).map_or(own, Namespace);
        let gateway = snapshot.gateways.get(within, Name(name))?;
        let class = gateway.spec.gateway_class_name.as_str();
        let known = snapshot.gateway_classes.get(Namespace(""), Name(class));
        longboat_gateway::is_own_class(class, known).then(|| format!("{within}/{name}"))
    })?;
    Some(Advice::warning(
        path,
        "NeverWakes",
        format!(
            "never start a replica when there is none: Gateway {gateway} holds the requests, and {} read only what replicas and \
             their picker measure",
            if path.ends_with("metrics") { "the metrics" } else { "the triggers" }
        ),
        format!(
            "add sum({QUEUE_SERIES}{{inference_pool=\"{}\"}}) to the query",
            names::pool(Name::of(&service.metadata))
        ),
    ))
}

/// Finds mistakes in the triggers of both halves.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, half) in spec.workloads() {
        let keda = half.scaling.as_ref().and_then(|scaling| scaling.keda.as_ref());
        for (at, trigger) in keda.and_then(|keda| keda.triggers.as_ref()).into_iter().flatten().enumerate() {
            let hint = nearest(trigger_types(), &trigger.type_);
            all.extend(trigger_mistakes(trigger).into_iter().map(|mistake| Advice {
                path: format!("{path}.scaling.keda.triggers[{at}].{}", mistake.field),
                // A later release of KEDA may have more types.
                severity: if mistake.field == "type" && hint.is_none() {
                    Severity::Warning
                } else {
                    Severity::Error
                },
                reason: "TriggerRefused",
                message: format!("{}, so KEDA does not scale the workload", mistake.message),
                hint: hint.filter(|_| mistake.field == "type").map(|hint| format!("did you mean `{hint}`?")),
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn triggers_that_our_gateway_keeps_from_waking_a_service_are_named() {
        let told = |class: &str, query: &str| {
            let gateway = format!(
                "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: kserve-ingress-gateway, namespace: \
                 kserve}}\nspec:\n  gatewayClassName: {class}\n  listeners: [{{name: web, port: 80, protocol: HTTP, \
                 allowedRoutes: {{namespaces: {{from: All}}}}}}]\n---\n"
            );
            let lines = format!(
                "  model: {{uri: 'hf://a/b'}}\n  router: {{gateway: {{}}, route: {{}}, scheduler: {{}}}}\n  scaling:\n    minReplicas: \
                 1\n    maxReplicas: 3\n    keda:\n      idleReplicaCount: 0\n      triggers:\n      - {{type: prometheus, \
                 metadata: {{query: '{query}', serverAddress: 'http://p', threshold: '1'}}}}\n"
            );
            let mut found = finding_lines(&(gateway + &service("one", &lines)));
            found.retain(|line| line.contains("never start"));
            found.len()
        };
        let running = "sum(vllm:num_requests_running)";
        assert_eq!(told("longboat", running), 1);
        assert_eq!(told("istio", running), 0, "clients repeat their requests there");
        assert_eq!(
            told("longboat", "sum(rate(llm_d_epp_request_total[1m]))"),
            0,
            "the picker counts the request"
        );
        assert_eq!(told("longboat", "sum(llm_d_epp_flow_control_queue_size)"), 0);
    }

    #[test]
    fn triggers_that_keda_cannot_evaluate_are_errors() {
        let scaled = |trigger: &str| {
            service(
                "one",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  scaling:\n    maxReplicas: 3\n    keda:\n      triggers:\n      - type: {trigger}\n"
                ),
            )
        };
        let metadata = "\n        metadata: {query: 'sum(a)', serverAddress: 'http://p', threshold: x}";
        let path = "spec.scaling.keda.triggers[0]";
        let not = "so KEDA does not scale the workload";
        assert_eq!(
            finding_lines(&scaled("promethues\n        metadata: {}")),
            [format!(
                "10:9 error {path}.type: is \"promethues\", which is no type of KEDA's triggers, {not} (did you mean `prometheus`?)"
            )]
        );
        assert_eq!(
            finding_lines(&scaled("tomorrow\n        metadata: {}")),
            [format!(
                "10:9 warning {path}.type: is \"tomorrow\", which is no type of KEDA's triggers, {not}"
            )]
        );
        assert_eq!(
            finding_lines(&scaled(&format!("prometheus{metadata}"))),
            [format!(
                "11:64 error {path}.metadata.threshold: is \"x\": expected a number, such as \"5\", {not}"
            )]
        );
        assert_eq!(
            finding_lines(&scaled(&format!(
                "prometheus{}",
                metadata.replace("threshold: x", "threshold: '1'")
            ))),
            [""; 0]
        );
    }
}
