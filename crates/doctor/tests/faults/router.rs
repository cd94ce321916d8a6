//! Gateways, classes, routes and pools.

use std::sync::Arc;

use longboat_api::v1alpha2::LLMInferenceService;
use longboat_doctor::{Facts, Finding, Severity};
use longboat_key::{Key, Name, Namespace};
use serde_json::{Value, json};

use crate::world::{LLM, READY, arc, condition, object, only, service, unready, with};

#[test]
fn a_router_that_is_not_ready_leads_to_gateway_class_route_or_pool() {
    let routed = |facts: &mut Facts| unready(facts, "HTTPRoutesReady", "HTTPRoutesNotReady", "not ready");
    // The Gateway has not set a status on the route.
    let unheard = |facts: &mut Facts| {
        routed(facts);
        let mut route =
            facts.snapshot.http_routes.get(Namespace("ns"), Name("llm-kserve-route")).unwrap().clone();
        route.status = None;
        facts.snapshot.http_routes.insert(Arc::new(route));
    };
    let gateway = |facts: &mut Facts, status: Value| {
        let mut gateway = facts.snapshot.gateways.get(Namespace("kserve"), Name("gw")).unwrap().clone();
        gateway.status = Some(object(status));
        facts.snapshot.gateways.insert(Arc::new(gateway));
    };
    // The platform's Gateway has a finding too.
    let of_service = |findings: Vec<Finding>| -> Vec<Finding> {
        findings.into_iter().filter(|finding| finding.object == LLM).collect()
    };

    let found = with(|facts| {
        routed(facts);
        facts.snapshot.gateways.remove(Namespace("kserve"), Name("gw"));
    });
    only(&of_service(found), "GatewayMissing", LLM, "no Gateway kserve/gw", "kserveIngressGateway");
    // A route with host names of its own needs that Gateway, too, and does not exist before it.
    let found = with(|facts| {
        routed(facts);
        let mut service = LLMInferenceService::clone(&facts.services[0]);
        service.spec.router =
            Some(object(json!({"route": {"http": {"spec": {"hostnames": ["a.example"]}}}})));
        facts.services = vec![Arc::new(service)];
        facts.snapshot.http_routes.remove(Namespace("ns"), Name("llm-kserve-route"));
        facts.snapshot.gateways.remove(Namespace("kserve"), Name("gw"));
    });
    only(&of_service(found), "GatewayMissing", LLM, "no Gateway kserve/gw", "kserveIngressGateway");
    // An empty name of a pool means the service's own.
    let found = with(|facts| {
        unready(facts, "InferencePoolReady", "WaitingForGateway", "not ready");
        let mut service = LLMInferenceService::clone(&facts.services[0]);
        service.spec.router =
            Some(object(json!({"route": {}, "scheduler": {"pool": {"ref": {"name": ""}}}})));
        facts.services = vec![Arc::new(service)];
        facts.snapshot.inference_pools.remove(Namespace("ns"), Name("llm-inference-pool"));
    });
    only(&of_service(found), "PoolMissing", LLM, "InferencePool ns/llm-inference-pool", "kubectl describe");
    let found = with(|facts| {
        unheard(facts);
        gateway(facts, json!({}));
        facts.snapshot.gateway_classes.remove(Namespace(""), Name("envoy"));
    });
    let finding =
        only(&of_service(found), "GatewayClassMissing", LLM, "no GatewayClass envoy", "Envoy Gateway");
    assert_eq!(finding.chain[1..], ["HTTPRoute ns/llm-kserve-route", "Gateway kserve/gw"]);
    let found = with(|facts| {
        unheard(facts);
        gateway(facts, json!({}));
        let mut class = facts.snapshot.gateway_classes.get(Namespace(""), Name("envoy")).unwrap().clone();
        class.status =
            Some(object(json!({"conditions": [condition("Accepted", "False", "InvalidParameters", "no")]})));
        facts.snapshot.gateway_classes.insert(Arc::new(class));
    });
    only(&of_service(found), "GatewayClassRefused", LLM, "InvalidParameters: no", "gatewayclass envoy");
    let found = with(|facts| {
        unheard(facts);
        gateway(
            facts,
            json!({"conditions": [condition("Programmed", "Unknown", "Pending", "Waiting for controller")]}),
        );
    });
    only(
        &of_service(found),
        "GatewayControllerSilent",
        LLM,
        "`example.com/gateway`",
        "kubectl describe gateway",
    );
    let found = with(|facts| {
        unheard(facts);
        gateway(
            facts,
            json!({"conditions": [condition("Programmed", "False", "AddressNotAssigned", "no address")]}),
        );
    });
    only(
        &of_service(found),
        "GatewayNotProgrammed",
        LLM,
        "AddressNotAssigned: no address",
        "kubectl describe gateway",
    );
    let found = with(|facts| {
        unheard(facts);
        let listener = json!({
            "name": "https", "attachedRoutes": 0, "supportedKinds": [],
            "conditions": [condition("ResolvedRefs", "False", "InvalidCertificateRef", "no Secret")],
        });
        gateway(facts, json!({"listeners": [listener]}));
    });
    let found = of_service(found);
    only(
        &found,
        "CertificateUnusable",
        LLM,
        "listener https: InvalidCertificateRef",
        "spec.listeners[https]",
    );
    assert!(found[0].is_permanent(), "waiting brings no certificate");
    let found = with(|facts| {
        unheard(facts);
        let listener = json!({
            "name": "https", "attachedRoutes": 0, "supportedKinds": [],
            "conditions": [condition("Conflicted", "True", "HostnameConflict", "another one")],
        });
        gateway(facts, json!({"listeners": [listener]}));
    });
    only(
        &of_service(found),
        "ListenerRefused",
        LLM,
        "listener https: HostnameConflict",
        "spec.listeners[https]",
    );
    let found = with(|facts| {
        unheard(facts);
        let programmed = condition("Programmed", "True", "Programmed", "");
        gateway(facts, json!({"conditions": [programmed]}));
    });
    only(&of_service(found), "GatewayWithoutAddress", LLM, "no address", "LoadBalancer");
    only(
        &with(unheard),
        "RouteNotSeen",
        LLM,
        "has written no status for the route",
        "kubectl describe gateway -n kserve gw",
    );

    let refused = |type_: &str, reason: &str| {
        with(|facts| {
            routed(facts);
            let mut route =
                facts.snapshot.http_routes.get(Namespace("ns"), Name("llm-kserve-route")).unwrap().clone();
            let parent = &mut route.status.as_mut().unwrap().parents[0];
            let at = parent.conditions.iter().position(|found| found.type_ == type_).unwrap();
            parent.conditions[at] = object(condition(type_, "False", reason, "no"));
            facts.snapshot.http_routes.insert(Arc::new(route));
        })
    };
    for (type_, reason, fix) in [
        ("Accepted", "NotAllowedByListeners", "allow namespace ns in"),
        ("Accepted", "NoMatchingParent", "sectionName"),
        ("Accepted", "NoMatchingListenerHostname", "hostnames"),
        ("ResolvedRefs", "BackendNotFound", "which back end"),
        ("ResolvedRefs", "RefNotPermitted", "ReferenceGrant"),
        ("ResolvedRefs", "InvalidKind", "name a Service or an InferencePool"),
        ("ResolvedRefs", "Other", "kubectl describe httproute -n ns llm-kserve-route"),
    ] {
        only(&refused(type_, reason), "RouteRefused", LLM, reason, fix);
    }
    let found = with(|facts| {
        routed(facts);
        let mut route =
            facts.snapshot.http_routes.get(Namespace("ns"), Name("llm-kserve-route")).unwrap().clone();
        route.spec.rules = vec![object(json!({"backendRefs": [{"kind": "InferencePool", "name": "p"}]}))];
        let conditions = &mut route.status.as_mut().unwrap().parents[0].conditions;
        conditions[1] = object(condition("ResolvedRefs", "False", "InvalidKind", "no"));
        facts.snapshot.http_routes.insert(Arc::new(route));
    });
    only(&found, "RouteRefused", LLM, "InvalidKind", "inference extension");
    let found = with(|facts| {
        routed(facts);
        let mut route =
            facts.snapshot.http_routes.get(Namespace("ns"), Name("llm-kserve-route")).unwrap().clone();
        route.status.as_mut().unwrap().parents[0].conditions[0].observed_generation = Some(1);
        facts.snapshot.http_routes.insert(Arc::new(route));
    });
    only(
        &found,
        "RouteStale",
        LLM,
        "has processed generation 1 of the route, but the current generation is 3",
        "example.com/gateway",
    );
    let found = with(|facts| {
        routed(facts);
        facts.snapshot.capabilities.gateway_api = false;
    });
    only(&found, "GatewayApiMissing", LLM, "does not serve the Gateway API", "install the Gateway API");

    let referenced = |route: Option<Value>| {
        with(|facts| {
            let mut own =
                service(&[("Ready", "False", "", ""), ("HTTPRoutesReady", "False", "RefsInvalid", "")]);
            own["spec"]["router"] = json!({"route": {"http": {"refs": [{"name": "mine"}]}}});
            facts.services = vec![arc(own)];
            if let Some(route) = route {
                facts.snapshot.http_routes.insert(arc(route));
            }
        })
    };
    only(&referenced(None), "RouteMissing", LLM, "no HTTPRoute ns/mine", "spec.router.route.http.refs");
    let parentless = json!({"metadata": {"name": "mine", "namespace": "ns"}, "spec": {}});
    only(&referenced(Some(parentless)), "RouteWithoutGateway", LLM, "names no Gateway", "parentRefs");
    // The pool waits for the route of the user, and there is no managed one.
    let found = with(|facts| {
        let conditions =
            [("Ready", "False", "", ""), ("InferencePoolReady", "False", "WaitingForGateway", "")];
        let mut own = service(&conditions);
        own["spec"]["router"] = json!({"scheduler": {}, "route": {"http": {"refs": [{"name": "mine"}]}}});
        facts.services = vec![arc(own)];
        let mut pool =
            facts.snapshot.inference_pools.get(Namespace("ns"), Name("llm-inference-pool")).unwrap().clone();
        pool.status = None;
        facts.snapshot.inference_pools.insert(Arc::new(pool));
        facts.snapshot.http_routes.remove(Namespace("ns"), Name("llm-kserve-route"));
        let parent = json!({"name": "gw", "namespace": "kserve"});
        let message =
            "back ends of kind InferencePool in group \"inference.networking.x-k8s.io\" are not supported";
        let said = [
            condition("Accepted", "True", "Accepted", ""),
            condition("ResolvedRefs", "False", "InvalidKind", message),
        ];
        facts.snapshot.http_routes.insert(arc(json!({
            "metadata": {"name": "mine", "namespace": "ns", "generation": 1},
            "spec": {"parentRefs": [parent]},
            "status": {"parents": [{"parentRef": parent, "controllerName": "example.com/gateway", "conditions": said}]},
        })));
    });
    let finding =
        only(&found, "RouteRefused", LLM, "InvalidKind", "write `group: inference.networking.k8s.io`");
    assert_eq!(finding.chain[1..], ["InferencePool ns/llm-inference-pool", "HTTPRoute ns/mine"]);

    let pooled = |facts: &mut Facts| unready(facts, "InferencePoolReady", "WaitingForGateway", "waiting");
    let pool = |facts: &mut Facts, conditions: Value| {
        let mut pool =
            facts.snapshot.inference_pools.get(Namespace("ns"), Name("llm-inference-pool")).unwrap().clone();
        pool.status =
            Some(object(json!({"parents": [{"parentRef": {"name": "gw"}, "conditions": conditions}]})));
        facts.snapshot.inference_pools.insert(Arc::new(pool));
    };
    let found = with(|facts| {
        pooled(facts);
        pool(facts, json!([]));
    });
    only(&found, "PoolNotSeen", LLM, "no Gateway has accepted the pool", "inference extension");
    let found = with(|facts| {
        pooled(facts);
        pool(facts, json!([condition("Accepted", "False", "NotSupported", "no")]));
    });
    only(&found, "PoolRefused", LLM, "NotSupported: no", "kubectl describe inferencepool");
    let found = with(|facts| {
        pooled(facts);
        facts.snapshot.inference_pools.remove(Namespace("ns"), Name("llm-inference-pool"));
    });
    only(
        &found,
        "PoolMissing",
        LLM,
        "no InferencePool ns/llm-inference-pool",
        "kubectl describe llminferenceservice -n ns llm",
    );
    let found = with(|facts| {
        pooled(facts);
        facts.snapshot.capabilities.inference_pool = false;
        facts.snapshot.capabilities.inference_pool_x = false;
    });
    only(
        &found,
        "PoolApiMissing",
        LLM,
        "does not serve the InferencePool API",
        "install the Gateway API inference extension",
    );
    let found = with(|facts| {
        pooled(facts);
        pool(facts, json!([]));
        let mut routeless =
            service(&[("Ready", "False", "", ""), ("InferencePoolReady", "False", "WaitingForGateway", "")]);
        routeless["spec"]["router"] = json!({"scheduler": {}});
        facts.services = vec![arc(routeless)];
    });
    only(&found, "PoolWithoutRoute", LLM, "no route sends requests", "spec.router.route: {}");
}

#[test]
fn routes_of_users_and_listeners_that_are_refused_are_named() {
    let parent = json!({"name": "gw", "namespace": "kserve"});
    let own = |namespace: &str| {
        json!({
            "metadata": {"name": "own", "namespace": namespace, "generation": 1},
            "spec": {"parentRefs": [parent]},
            "status": {"parents": [{
                "parentRef": parent, "controllerName": "example.com/gateway",
                "conditions": [
                    condition("Accepted", "True", "Accepted", ""),
                    condition("ResolvedRefs", "False", "BackendNotFound", "no Service ns/gone"),
                ],
            }]},
        })
    };
    let found = with(|facts| facts.snapshot.http_routes.insert(arc(own("ns"))));
    let finding = only(&found, "RouteRefused", "HTTPRoute ns/own", "no Service ns/gone", "kubectl get");
    assert!(finding.chain.is_empty(), "{:?}", finding.chain);
    // Where the user names services, only routes to these count.
    let named = |back_end: &str| {
        let mut route = own("ns");
        route["spec"]["rules"] = json!([{"backendRefs": [{"name": back_end}]}]);
        with(|facts| {
            facts.snapshot.http_routes.insert(arc(route));
            facts.all_services = false;
        })
    };
    assert!(named("gone").is_empty());
    only(
        &named("llm-inference-pool"),
        "RouteRefused",
        "HTTPRoute ns/own",
        "no Service ns/gone",
        "kubectl get",
    );
    assert!(
        with(|facts| facts.snapshot.http_routes.insert(arc(own("web")))).is_empty(),
        "no service is there"
    );

    let found = with(|facts| {
        let mut gateway = facts.snapshot.gateways.get(Namespace("kserve"), Name("gw")).unwrap().clone();
        let listener = json!({
            "name": "https", "attachedRoutes": 0, "supportedKinds": [],
            "conditions": [condition("ResolvedRefs", "False", "InvalidCertificateRef", "no Secret")],
        });
        gateway.status.as_mut().unwrap().listeners.push(object(listener));
        facts.snapshot.gateways.insert(Arc::new(gateway));
        facts.local = true;
    });
    only(&found, "CertificateUnusable", "Gateway kserve/gw", "listener https: ", "spec.listeners[https]");
}

#[test]
fn secrets_with_api_keys_that_no_gateway_accepts_are_named() {
    let secret = Key::new(Namespace("ns"), Name("team"));
    let found = with(|facts| {
        facts.refused_keys.insert(secret, "entry `key` is missing".to_owned());
    });
    only(
        &found,
        "ApiKeyRefused",
        "Secret ns/team",
        "entry `key` is missing",
        "kubectl edit secret -n ns team",
    );
}

#[test]
fn services_that_serve_a_model_of_the_same_name_at_one_gateway_are_told_of_each_other() {
    let collisions = |model: &str| {
        let found = with(|facts| {
            let mut other = service(&READY);
            other["metadata"]["name"] = json!("other");
            other["spec"]["model"]["name"] = json!(model);
            facts.services.push(arc(other));
            for name in ["llm", "other"] {
                let matching = json!({"headers": [{"name": "X-Gateway-Model-Name", "value": "publishers/ns/models/llm"}]});
                facts.snapshot.http_routes.insert(arc(json!({
                    "metadata": {"name": format!("{name}-kserve-route"), "namespace": "ns"},
                    "spec": {"parentRefs": [{"name": "gw", "namespace": "kserve"}], "rules": [{"matches": [matching]}]},
                })));
            }
        });
        let collisions = found.into_iter().filter(|finding| finding.fault == "ModelNameCollision");
        collisions.map(|found| (found.object, found.severity, found.cause)).collect::<Vec<_>>()
    };
    let of = |name: &str, other: &str| {
        let cause = format!(
            "model \"llm\" has the name of a model of LLMInferenceService ns/{other} at the same Gateway, so requests that name only the \
             model reach one of the two services"
        );
        (format!("LLMInferenceService ns/{name}"), Severity::Warning, cause)
    };
    assert_eq!(collisions("llm"), [of("llm", "other"), of("other", "llm")]);
    assert_eq!(collisions("another"), []);
}
