use std::{net::SocketAddr, sync::Arc};

use longboat_api::foreign::{
    gateway::Gateway,
    gatewayclass::GatewayClass,
    httproute::{HTTPRoute, HTTPRouteStatus},
    inferencepool::InferencePool,
};
use longboat_key::Key;
use serde_json::{Value, json};

use super::{filter::PathChange, *};
use crate::{
    RoutingInputs, attach::Attachment, observed::only_tls_probes, ports::Ports, resolved::Resolved,
    tables::Tables,
};

pub(super) fn observed(rules: &Value) -> RoutingInputs {
    fn object<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }
    RoutingInputs {
        classes: vec![object::<GatewayClass>(json!({
            "metadata": {"name": "longboat"}, "spec": {"controllerName": crate::CONTROLLER_NAME},
        }))],
        gateways: vec![object::<Gateway>(json!({
            "metadata": {"name": "gateway", "namespace": "kserve"},
            "spec": {"gatewayClassName": "longboat", "listeners": [{
                "name": "http", "port": 8080, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}},
            }]},
        }))],
        routes: vec![object(json!({
            "metadata": {"name": "route", "namespace": "ns"},
            "spec": {"parentRefs": [{"name": "gateway", "namespace": "kserve"}], "rules": rules},
        }))],
        pools: vec![object::<InferencePool>(json!({
            "metadata": {"name": "pool", "namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "targetPorts": [{"number": 8000}],
                "endpointPickerRef": {"kind": "Service", "name": "epp", "port": {"number": 9002}, "failureMode": "FailOpen"}},
        }))],
        services: vec![
            object(
                json!({"metadata": {"name": "svc", "namespace": "ns"}, "spec": {"ports": [{"name": "p", "port": 8000, "targetPort": 8001}]}}),
            ),
            object(
                json!({"metadata": {"name": "epp", "namespace": "ns"}, "spec": {"ports": [{"port": 9002}]}}),
            ),
        ],
        slices: vec![object(json!({
            "metadata": {"name": "svc-1", "namespace": "ns", "labels": {"kubernetes.io/service-name": "svc"}},
            "addressType": "IPv4", "ports": [{"name": "p", "port": 8001}],
            "endpoints": [
                {"addresses": ["127.0.1.1"], "conditions": {"ready": true}},
                {"addresses": ["127.0.1.2"], "conditions": {"ready": false}},
            ],
        }))],
        pods: vec![object(json!({
            "metadata": {"name": "a", "namespace": "ns", "labels": {"app": "x"}},
            "status": {"podIP": "127.0.1.1", "conditions": [{"type": "Ready", "status": "True"}]},
        }))],
        namespaces: Vec::new(),
        ..RoutingInputs::default()
    }
}

fn request(uri: &str, headers: &[(&str, &str)]) -> http::request::Parts {
    let mut request = http::Request::builder().uri(uri).header("host", "localhost:8080");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// Compiles the tables of a socket, which all Gateways share.
pub(super) fn tables(observed: &RoutingInputs, socket: SocketAddr) -> Tables {
    let ports = Ports::only(socket.ip(), socket.port(), &observed.gateways);
    Tables::new(observed, &ports, &Resolved::new(observed, &ports, &mut RouteParser::default()))
}

/// The table of a socket.
struct Compiled(Tables, SocketAddr);

impl Compiled {
    fn find(&self, head: &http::request::Parts) -> Option<RouteMatch> {
        self.0.on(self.1).find(head)
    }
}

fn compiled(observed: &RoutingInputs, port: u16) -> Compiled {
    let socket = SocketAddr::new("127.0.0.1".parse().unwrap(), port);
    Compiled(tables(observed, socket), socket)
}

fn unsupported(route: &Arc<HTTPRoute>) -> Vec<String> {
    ParsedRoute::new(route, Key::default()).unsupported.clone()
}

fn rule(kind: &str, path: &str, service_port: i32) -> Value {
    json!({
        "matches": [{"path": {"type": kind, "value": path}}],
        "backendRefs": [{"kind": "Service", "name": "svc", "port": service_port}],
    })
}

/// Returns the weight of the rule that was found: in these tests, the weight identifies the rule.
fn found(table: &Compiled, uri: &str, headers: &[(&str, &str)]) -> Option<u32> {
    table.find(&request(uri, headers)).map(|found| found.rule.backends[0].weight)
}

#[test]
fn the_most_specific_match_wins_and_prefixes_cover_whole_elements() {
    let weighted = |mut rule: Value, weight: u32| {
        rule["backendRefs"][0]["weight"] = json!(weight);
        rule
    };
    let mut by_header = weighted(rule("PathPrefix", "/", 8000), 5);
    by_header["matches"][0]["headers"] = json!([{"name": "X-Model", "value": "m"}]);
    let rules = json!([
        weighted(rule("PathPrefix", "/", 8000), 1),
        weighted(rule("PathPrefix", "/ns/name", 8000), 2),
        weighted(rule("PathPrefix", "/ns/name/v1", 8000), 3),
        weighted(rule("Exact", "/ns/name/v1", 8000), 4),
        by_header,
    ]);
    let table = compiled(&observed(&rules), 8080);
    for (uri, headers, expected) in [
        ("/", &[][..], 1),
        ("/ns/nam", &[], 1),
        ("/ns/name", &[], 2),
        ("/ns/names", &[], 1),
        ("/ns/name/v1?x=y", &[], 4),
        ("/ns/name/v1/models", &[("x-model", "m")], 3),
        ("/other", &[("x-model", "m")], 5),
        ("/other", &[("x-model", "m"), ("x-model", "other")], 1),
    ] {
        assert_eq!(found(&table, uri, headers), Some(expected), "{uri}");
    }
    assert!(compiled(&observed(&rules), 9999).find(&request("/", &[])).is_none());
}

#[test]
fn a_header_may_be_matched_by_a_regular_expression_of_its_whole_value() {
    let matching = |value: &str| {
        let mut rule = rule("PathPrefix", "/", 8000);
        rule["matches"][0]["headers"] =
            json!([{"type": "RegularExpression", "name": "X-Model", "value": value}]);
        observed(&json!([rule]))
    };
    let table = compiled(&matching("^publishers/ns/models/(m|a\\.b)$"), 8080);
    let finds = |model: &str| found(&table, "/v1/models", &[("x-model", model)]).is_some();
    assert!(finds("publishers/ns/models/m") && finds("publishers/ns/models/a.b"));
    assert!(!finds("publishers/ns/models/axb") && !finds("publishers/ns/models/mm"));
    assert!(!finds("x/publishers/ns/models/m") && found(&table, "/v1/models", &[]).is_none());
    // The back end gets both values.
    assert!(found(&table, "/", &[("x-model", "publishers/ns/models/m"), ("x-model", "other")]).is_none());
    // Without anchors, it is the whole value all the same.
    let table = compiled(&matching("a|b"), 8080);
    assert_eq!(
        ["a", "b", "ab", "ca"].map(|model| found(&table, "/", &[("x-model", model)])),
        [Some(1), Some(1), None, None]
    );
    let why = "spec.rules[0].matches[0].headers[0] (X-Model: the regular expression `(` cannot be used: unclosed group)";
    assert_eq!(unsupported(&matching("(").routes[0]), [why]);
}

#[test]
fn back_ends_are_resolved_to_ready_endpoints_or_a_reason() {
    let pool = json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool", "port": 8000});
    let observed = observed(&json!([{"backendRefs": [
        {"name": "svc", "port": 8000}, pool, {"name": "svc", "port": 1}, {"group": "x", "kind": "Y", "name": "z"},
        {"name": "svc", "port": 8000, "namespace": "other"},
    ]}]));
    let table = compiled(&observed, 8080);
    let found = table.find(&request("/", &[])).unwrap();
    let outcome: Vec<_> = found
        .rule
        .backends
        .iter()
        .map(|backend| backend.backend.as_ref().map_err(|error| error.reason))
        .collect();
    let service = ServiceBackend { endpoints: vec!["127.0.1.1:8001".parse().unwrap()], link: Link::Http };
    assert_eq!(outcome[0], Ok(&Backend::Service(service)));
    let Ok(Backend::Pool(pool)) = outcome[1] else { panic!("{:?}", outcome[1]) };
    assert_eq!((pool.fail_open, pool.endpoints.clone()), (true, vec!["127.0.1.1:8000".parse().unwrap()]));
    assert_eq!(outcome[2..], [Err("BackendNotFound"), Err("InvalidKind"), Err("RefNotPermitted")]);
    assert_eq!(unresolved(&observed, &observed.routes[0]).len(), 3);
}

#[test]
fn a_port_with_a_protocol_that_is_not_served_is_no_back_end() {
    let mut observed = observed(&json!([{"backendRefs": [{"name": "svc", "port": 8000}]}]));
    let mut reasons = |protocol: &str, policy: Option<Value>| {
        observed.tls_policies =
            policy.map(|policy| Arc::new(serde_json::from_value(policy).unwrap())).into_iter().collect();
        let spec = Arc::make_mut(&mut observed.services[0]).spec.as_mut().unwrap();
        spec.ports.as_mut().unwrap()[0].app_protocol = Some(protocol.into());
        unresolved(&observed, &observed.routes[0]).into_keys().collect::<Vec<_>>()
    };
    for protocol in ["http", "https", "kubernetes.io/h2c", "kubernetes.io/ws", "example.com/own"] {
        assert_eq!(reasons(protocol, None), [""; 0], "{protocol}");
    }
    for protocol in ["kubernetes.io/wss", "kubernetes.io/h3"] {
        assert_eq!(reasons(protocol, None), ["UnsupportedProtocol"], "{protocol}");
    }
    let policy = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {
        "targetRefs": [{"group": "", "kind": "Service", "name": "svc"}], "validation": {"hostname": "a.example"},
    }});
    assert_eq!(reasons("kubernetes.io/wss", Some(policy)), [""; 0]);
}

#[test]
fn a_pod_is_reached_with_tls_if_a_probe_of_the_same_port_uses_it() {
    let pool = json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool", "port": 8000});
    let mut observed = observed(&json!([{"backendRefs": [pool]}]));
    let mut link_beside = |sidecar: Value, probes: Value| {
        let mut container = json!({"name": "main", "ports": [{"name": "api", "containerPort": 8000}]});
        container.as_object_mut().unwrap().extend(probes.as_object().unwrap().clone());
        let pod = json!({"initContainers": [sidecar], "containers": [container]});
        let spec = serde_json::from_value(pod).unwrap();
        Arc::make_mut(&mut observed.pods[0]).spec = only_tls_probes(spec);
        let table = compiled(&observed, 8080);
        let rule = table.find(&request("/", &[])).unwrap().rule;
        let Ok(Backend::Pool(pool)) = &rule.backends[0].backend else { panic!("no pool") };
        pool.link.to(pool.endpoints[0]).clone()
    };
    let (tls, plain) =
        (json!({"httpGet": {"port": 8000, "scheme": "HTTPS"}}), json!({"httpGet": {"port": 8000}}));
    // A sidecar has the port, and a probe of the main container is left over from a manifest without it.
    let sidecar = |probe: &Value| json!({"name": "sidecar", "readinessProbe": probe});
    assert_eq!(link_beside(sidecar(&plain), json!({"livenessProbe": tls})), Link::Http);
    assert_eq!(link_beside(sidecar(&tls), json!({"livenessProbe": plain})), Link::UnverifiedTls);
    let mut link = |probes: Value| link_beside(json!({"name": "idle"}), probes);
    let by_name = json!({"httpGet": {"port": "api", "scheme": "HTTPS"}});
    let other_port = json!({"httpGet": {"port": 8001, "scheme": "HTTPS"}});
    assert_eq!(link(json!({"readinessProbe": tls})), Link::UnverifiedTls);
    assert_eq!(link(json!({"readinessProbe": by_name})), Link::UnverifiedTls);
    assert_eq!(link(json!({"readinessProbe": other_port})), Link::Http);
    assert_eq!(link(json!({"readinessProbe": plain})), Link::Http);
    assert_eq!(link(json!({"readinessProbe": plain, "livenessProbe": tls})), Link::Http);
    assert_eq!(link(json!({"startupProbe": tls, "livenessProbe": plain})), Link::UnverifiedTls);
}

#[test]
fn a_prefix_rewrite_keeps_the_rest_and_the_query() {
    let change = PathChange::Prefix("/".into());
    for (from, to) in [("/ns/n/v1/models?a=b", "/v1/models?a=b"), ("/ns/n", "/"), ("/ns/n/", "/")] {
        assert_eq!(change.apply(&from.parse().unwrap(), Some("/ns/n")).unwrap(), to);
    }
    let change = PathChange::Prefix("/v1/completions".into());
    assert_eq!(
        change.apply(&"/a/v1/completions".parse().unwrap(), Some("/a/v1/completions")).unwrap(),
        "/v1/completions"
    );
}

/// Returns routes without an age, each with one match of these regular expressions for headers.
fn matching(routes: &[Vec<String>]) -> RoutingInputs {
    let mut all = observed(&json!([]));
    let route = |(at, values): (usize, &Vec<String>)| {
        let mut route = HTTPRoute::clone(&all.routes[0]);
        let mut rule = rule("PathPrefix", &format!("/{at}"), 8000);
        let header = |(number, value): (usize, &String)| {
            let name = format!("x-{number}");
            json!({"type": "RegularExpression", "name": name, "value": value})
        };
        rule["matches"][0]["headers"] = values.iter().enumerate().map(header).collect();
        route.metadata.name = Some(format!("r{at:02}"));
        route.spec.rules = serde_json::from_value(json!([rule])).unwrap();
        Arc::new(route)
    };
    let routes = routes.iter().enumerate().map(route).collect();
    all.routes = routes;
    all
}

/// Expressions of about 64 KB, of which eight have room in a route.
fn large(count: usize) -> Vec<String> {
    vec!["[ab]*a[ab]{9}".into(); count]
}

#[test]
fn the_regular_expressions_of_a_route_share_its_memory() {
    let of = |values: Vec<String>| unsupported(&matching(&[values]).routes[0]);
    // Each of the last is small, whatever its text says: classes are those of ASCII.
    assert_eq!(of(["\\w{130}"; 100].map(Into::into).into()), [""; 0]);
    assert_eq!(of(large(8)), [""; 0]);
    for (values, at, what) in [
        (large(9), 8, "and those before it need more than 524288 bytes together"),
        (
            vec!["a".into(), "[ab]*a[ab]{30}".into(), "[ab]*a[ab]{31}".into()],
            1,
            "needs more than 1048576 bytes",
        ),
        (vec!["(a{1000}){1000}".into()], 0, "needs more than 1048576 bytes"),
    ] {
        let [problem] = &of(values.clone())[..] else { panic!("not one problem") };
        let begin = format!(
            "spec.rules[0].matches[0].headers[{at}] (x-{at}: the regular expression `{}` {what}",
            values[at]
        );
        assert!(problem.starts_with(&begin), "{problem}");
    }
}

#[test]
fn the_regular_expressions_of_a_gateway_have_one_limit_which_older_routes_use_first() {
    let mut observed = matching(&vec![large(1); 6]);
    // Neither is attached, so neither takes room.
    for route in [0, 1] {
        Arc::make_mut(&mut observed.routes[route]).spec.parent_refs[0].namespace = Some("other".into());
    }
    let socket = SocketAddr::from(([127, 0, 0, 1], 8080));
    let ports = Ports::only(socket.ip(), socket.port(), &observed.gateways);
    let accepted = |observed: &RoutingInputs, parser: &mut RouteParser| {
        let resolved = Resolved::new(observed, &ports, parser);
        let accepted = resolved.routes.iter().filter(|route| route.listeners().next().is_some());
        // What is not served is not kept.
        let kept = resolved.routes.iter().filter(|route| !route.parsed.rules.is_empty()).count();
        (accepted.map(|route| route.parsed.key.name.to_string()).collect::<Vec<_>>(), kept, resolved)
    };
    // Room for two and a half.
    let (mut parser, mut for_statuses) = (RouteParser::default(), RouteParser::for_statuses());
    (parser.max_regex_bytes, for_statuses.max_regex_bytes) = (160_000, 160_000);
    let (names, kept, resolved) = accepted(&observed, &mut parser);
    assert_eq!((&names[..], kept), (&["r02", "r03"].map(String::from)[..], 2));
    let refused = &resolved.routes[5];
    let Attachment::Refused(problem) = &refused.attachments[0] else { panic!("not refused") };
    let need = format!("the regular expressions of this route need {} bytes, ", refused.parsed.regex_bytes);
    assert_eq!(problem.reason, "UnsupportedValue");
    assert!(problem.message.starts_with(&need), "{}", problem.message);
    // Who only writes statuses comes to the same, and keeps nothing.
    let (same, kept, _) = accepted(&observed, &mut for_statuses);
    assert_eq!((&same, kept), (&names, 0));
    // With another status, nothing is compiled again.
    let before = resolved.routes[2].parsed.rules.clone();
    Arc::make_mut(&mut observed.routes[2]).status = Some(HTTPRouteStatus::default());
    let (_, _, resolved) = accepted(&observed, &mut parser);
    assert!(Arc::ptr_eq(&before, &resolved.routes[2].parsed.rules));
    // A route that is gone leaves its room to another.
    observed.routes.remove(2);
    let (names, kept, _) = accepted(&observed, &mut parser);
    assert_eq!((&names[..], kept), (&["r03", "r04"].map(String::from)[..], 2));
}

#[test]
fn a_route_with_a_field_that_is_not_served_is_refused_as_a_whole() {
    let mut retried = rule("PathPrefix", "/", 8000);
    retried["retry"] = json!({"attempts": 2, "backoff": "soon"});
    let observed = observed(&json!([retried, rule("RegularExpression", "/.*", 8000)]));
    assert_eq!(
        unsupported(&observed.routes[0]),
        ["spec.rules[0].retry", "spec.rules[1].matches[0].path.type"]
    );
    assert!(compiled(&observed, 8080).find(&request("/", &[])).is_none());
}

#[test]
fn a_path_that_cannot_be_formed_is_refused_by_its_name() {
    let problems = |text: &str| {
        let rewrite = json!({"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplaceFullPath", "replaceFullPath": text}}});
        let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": text}}});
        let observed = observed(&json!([
            {"filters": [rewrite], "backendRefs": [{"name": "svc", "port": 8000, "filters": [redirect]}]},
        ]));
        unsupported(&observed.routes[0])
    };
    for text in ["", "/", "/a/", "/a%20b"] {
        assert_eq!(problems(text), [""; 0], "{text}");
    }
    for text in ["other", "/my path", "/a?b", "/a#b"] {
        let [rule, back_end] = &problems(text)[..] else { panic!("{text}") };
        let field = format!("spec.rules[0].filters[0].urlRewrite.path.replaceFullPath `{text}` (use");
        assert!(rule.starts_with(&field), "{rule}");
        let field = format!(
            "spec.rules[0].backendRefs[0].filters[0].requestRedirect.path.replacePrefixMatch `{text}` (use"
        );
        assert!(back_end.starts_with(&field), "{back_end}");
    }
}

#[test]
fn weights_divide_the_requests_and_zero_gets_none() {
    let observed = observed(&json!([{"backendRefs": [
        {"name": "svc", "port": 8000, "weight": 0}, {"name": "svc", "port": 8000, "weight": 3}, {"name": "svc", "port": 8000, "weight": 1},
    ]}]));
    let table = compiled(&observed, 8080);
    let rule = table.find(&request("/", &[])).unwrap().rule;
    let chosen: Vec<_> = (0..4)
        .map(|number| {
            rule.choose(|total| {
                assert_eq!(total, 4);
                number
            })
            .unwrap()
            .weight
        })
        .collect();
    assert_eq!(chosen, [3, 3, 3, 1]);
    // Without its definition in the cluster, nobody limits a weight.
    let backend = json!({"name": "svc", "port": 8000, "weight": i32::MAX});
    let table = compiled(&self::observed(&json!([{"backendRefs": vec![backend; 3]}])), 8080);
    assert!(table.find(&request("/", &[])).unwrap().rule.choose(|total| total - 1).is_some());
}

#[test]
fn a_request_goes_by_the_precedence_of_the_host_name_that_matches_it() {
    let mut observed = observed(&json!([]));
    let route = |name: &str, hosts: &[&str], weight: u32| {
        let backend = json!({"name": "svc", "port": 8000, "weight": weight});
        let object = json!({
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {
                "parentRefs": [{"name": "gateway", "namespace": "kserve"}], "hostnames": hosts,
                "rules": [{"backendRefs": [backend]}],
            },
        });
        Arc::new(serde_json::from_value(object).unwrap())
    };
    observed.routes = vec![
        route("a", &["*.prec.test", "very.long.specific.prec.test"], 1),
        route("b", &["foo.prec.test"], 2),
        route("c", &["*.sub.prec.test"], 3),
        route("d", &[], 4),
    ];
    let table = compiled(&observed, 8080);
    for (host, expected) in [
        ("very.long.specific.prec.test", 1),
        ("foo.prec.test", 2),
        ("bar.prec.test", 1),
        ("a.sub.prec.test", 3),
        ("localhost", 4),
    ] {
        let mut head = request("/", &[]);
        head.headers.insert("host", host.parse().unwrap());
        let found = table.find(&head).unwrap();
        assert_eq!(found.rule.backends[0].weight, expected, "{host}");
    }
    // A listener that is narrower than both routes does not make them equal.
    for listener in &mut Arc::make_mut(&mut observed.gateways[0]).spec.listeners {
        listener.hostname = Some("foo.prec.test".into());
    }
    let mut head = request("/", &[]);
    head.headers.insert("host", "foo.prec.test".parse().unwrap());
    assert_eq!(compiled(&observed, 8080).find(&head).unwrap().rule.backends[0].weight, 2);
}

#[test]
fn of_routes_of_the_same_age_the_first_in_the_order_of_namespace_slash_name_wins() {
    let mut observed = observed(&json!([]));
    let route = |namespace: &str| {
        let object = json!({"metadata": {"name": "x", "namespace": namespace}, "spec": {"parentRefs": [], "rules": []}});
        Arc::new(serde_json::from_value(object).unwrap())
    };
    observed.routes = ["a", "a-b"].map(route).into();
    let resolved = Resolved::new(&observed, &Ports::default(), &mut RouteParser::default());
    let order: Vec<_> = resolved.routes.iter().map(|route| route.parsed.key.to_string()).collect();
    assert_eq!(order, ["a-b/x", "a/x"]);
}
