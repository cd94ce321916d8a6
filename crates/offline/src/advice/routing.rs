//! Routing by the name of the model, for engines that cannot have it, and pickers to which no route leads.

use longboat_api::{
    annotations::MODEL_BASED_ROUTING,
    engine::Engine,
    foreign::httproute::HTTPRouteRule,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_key::{Name, Namespace};
use longboat_plan::{Snapshot, names};

use crate::finding::Advice;

pub(super) fn check(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
) -> impl Iterator<Item = Advice> {
    let all =
        [routing_by_model(spec), picker_without_route(snapshot, service, spec), prefill_without_picker(spec)];
    all.into_iter().flatten()
}

/// Finds the annotation of a service whose engine does not serve the name in the header.
fn routing_by_model(spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let is_asked_for =
        spec.workload.annotations.get(MODEL_BASED_ROUTING).is_some_and(|value| value == "true");
    (is_asked_for && !Engine::serves_published_name(spec)).then(|| {
        Advice::warning(
            format!("spec.annotations[\"{MODEL_BASED_ROUTING}\"]"),
            "RoutingWithoutEffect",
            format!(
                "has no effect: {} serves the model under its own name only, and not as publishers/NAMESPACE/models/NAME, so \
                 the route has no matches of the model header",
                Engine::of_spec(spec).name
            ),
            "remove it, or remove spec.runtime to serve with vLLM",
        )
    })
}

/// Finds prefill pods to which nobody sends requests: only a picker names one of them for a request.
fn prefill_without_picker(spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    spec.prefill.as_ref()?;
    spec.scheduler().is_none().then(|| {
        Advice::warning(
            "spec.prefill",
            "PrefillWithoutPicker",
            "has no effect without spec.router.scheduler: only a picker chooses prefill pods, so the others compute their \
             prompts themselves",
            "set `spec.router.scheduler: {}`, or remove spec.prefill",
        )
    })
}

/// Finds a picker whose pool is in no route. The service would wait for a Gateway that accepts the pool.
fn picker_without_route(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
) -> Option<Advice> {
    let router = spec.router.as_ref()?;
    router.scheduler.as_ref().filter(|scheduler| scheduler.external_pool().is_none())?;
    let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    let pool = names::pool(name);
    let leads = |rules: &[HTTPRouteRule], own: &str| {
        rules.iter().flat_map(|rule| &rule.backend_refs).map(|reference| &reference.backend).any(|backend| {
            backend.kind.as_deref() == Some("InferencePool")
                && backend.name == pool
                && backend.namespace.as_deref().unwrap_or(own) == namespace.as_str()
        })
    };
    if let Some(route) = &router.route {
        // Which routes are meant by references, is told by them.
        let own = route.http.as_ref().filter(|http| http.refs.is_empty())?.spec.as_ref()?;
        if own.rules.iter().any(HTTPRouteRule::has_no_destination) || leads(&own.rules, namespace.as_str()) {
            return None;
        }
    }
    let is_routed = snapshot
        .http_routes
        .iter()
        .any(|route| leads(&route.spec.rules, route.metadata.namespace.as_deref().unwrap_or_default()));
    let hint = if router.route.is_none() {
        "set `spec.router.route: {}`, or remove spec.router.scheduler".to_owned()
    } else {
        format!(
            "add a rule with the backendRef `{{group: inference.networking.k8s.io, kind: InferencePool, name: {pool}}}`, or remove \
             spec.router.scheduler"
        )
    };
    (!is_routed).then(|| {
        Advice::warning(
            "spec.router.scheduler",
            "PoolWithoutRoute",
            format!(
                "has a pool to which no route leads: the service becomes Ready only if a Gateway accepts InferencePool {pool}, for \
                 a route of your own"
            ),
            hint,
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn routing_by_model_for_an_engine_without_the_published_name_is_warned_about() {
        let with = |runtime: &str| {
            service(
                "one",
                &format!(
                    "  model: {{uri: 'hf://a/b', name: b}}\n{runtime}  router: {{route: {{}}, gateway: {{}}, scheduler: {{}}}}\n  annotations:\n    serving.kserve.io/model-based-routing-enabled: \"true\"\n"
                ),
            )
        };
        assert_eq!(finding_lines(&with("")), Vec::<String>::new());
        let found = finding_lines(&with("  runtime: kserve-llm-sglang\n"));
        let start = "9:5 warning spec.annotations[serving.kserve.io/model-based-routing-enabled]: has no effect: SGLang serves";
        assert!(found.len() == 1 && found[0].starts_with(start), "{found:#?}");
    }

    #[test]
    fn a_picker_to_which_no_route_leads_is_warned_about() {
        let with = |router: &str| {
            service("one", &format!("  model: {{uri: 'hf://a/b', name: b}}\n  router: {router}\n"))
        };
        let found = finding_lines(&with("{scheduler: {}}"));
        let start = "6:12 warning spec.router.scheduler: has a pool to which no route leads: ";
        assert!(found.len() == 1 && found[0].starts_with(start), "{found:#?}");
        for router in [
            "{route: {}, scheduler: {}}",
            "{gateway: {}, route: {}}",
            "{scheduler: {pool: {ref: {name: p}}}}",
        ] {
            assert!(
                !finding_lines(&with(router)).iter().any(|text| text.contains("no route leads")),
                "{router}"
            );
        }
        let route = |namespace: &str| {
            format!(
                "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: own, namespace: edge}}\nspec:\n\
             \x20 rules:\n  - backendRefs: [{{group: inference.networking.k8s.io, kind: InferencePool, \
             name: one-inference-pool{namespace}}}]\n"
            )
        };
        let routed =
            |namespace: &str| finding_lines(&format!("{}{}", with("{scheduler: {}}"), route(namespace)));
        assert_eq!(routed(", namespace: default"), Vec::<String>::new());
        assert_eq!(routed("").len(), 1, "the pool of another namespace");
        let own = |backend: &str| {
            with(&format!(
                "{{scheduler: {{}}, gateway: {{}}, route: {{http: {{spec: {{rules: [{{backendRefs: [{backend}]}}]}}}}}}}}"
            ))
        };
        let found = finding_lines(&own("{name: theirs, port: 80}"));
        assert!(found.len() == 1 && found[0].contains("no route leads"), "{found:#?}");
        let pool = "group: inference.networking.k8s.io, kind: InferencePool, name: one-inference-pool";
        assert_eq!(finding_lines(&own(&format!("{{{pool}}}"))), [""; 0]);
        let found = finding_lines(&own(&format!("{{{pool}, weight: 0}}")));
        assert!(found.len() == 1 && found[0].contains("no back end with a weight above 0"), "{found:#?}");
    }
}
