//! What `validate` says about routes to the back ends of services in the same files.

use super::{Finding, report, service};

fn finding_lines(text: &str) -> Vec<String> {
    let found = report(text).findings.into_iter().filter(|finding| finding.reason != "NotInTheseFiles");
    let show = |finding: Finding| {
        let hint = finding.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!(
            "{}:{} {}: {}{hint}",
            finding.line.unwrap(),
            finding.severity.name(),
            finding.path,
            finding.message
        )
    };
    found.map(show).collect()
}

/// A service with a pool, and a route with this rule in line 13.
fn with(rule: &str) -> Vec<String> {
    let route = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {parentRefs: [{name: gw}], rules: [";
    let router = "  router: {route: {http: {refs: [{name: r}]}}, scheduler: {}}\n";
    finding_lines(&format!("{}{route}{rule}]}}\n", service(router)))
}

const POOL: &str =
    "backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: one-inference-pool}]";

#[test]
fn a_path_that_vllm_does_not_have_needs_a_rewrite() {
    let at = |path: &str, more: &str| with(&format!("{{matches: [{{path: {path}}}], {more}{POOL}}}"));
    let message =
        "is \"/team/one\", and the rule does not rewrite it: vLLM has no such path, and answers 404";
    let hint = "(add the filter `{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}` to the rule)";
    assert_eq!(
        at("{type: PathPrefix, value: /team/one}", ""),
        [format!("12:warning spec.rules[0].matches[0].path.value: {message} {hint}")]
    );
    assert_eq!(
        at("{type: Exact, value: /team/one}", ""),
        [format!(
            "12:warning spec.rules[0].matches[0].path.value: {message} (add a filter URLRewrite to the rule)"
        )]
    );
    let rewrite = "filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}], ";
    assert_eq!(at("{type: PathPrefix, value: /team/one}", rewrite), [""; 0]);
    for path in ["{value: /}", "{type: PathPrefix, value: /v1}", "{type: Exact, value: /v1/chat/completions}"]
    {
        assert_eq!(at(path, ""), [""; 0], "{path}");
    }
    // The back end of somebody else has other paths.
    assert_eq!(
        with("{matches: [{path: {type: PathPrefix, value: /shop}}], backendRefs: [{name: shop, port: 80}]}"),
        [""; 0]
    );
}

#[test]
fn a_rule_in_the_service_is_judged_like_a_route_of_its_own() {
    let rule = "{matches: [{path: {type: PathPrefix, value: /team}}]}";
    let router = format!(
        "  router: {{gateway: {{}}, scheduler: {{}}, route: {{http: {{spec: {{rules: [{rule}]}}}}}}}}\n"
    );
    let found = finding_lines(&service(&router));
    let about: Vec<_> = found.iter().filter(|line| line.contains("vLLM has no such path")).collect();
    let [line] = about.as_slice() else { panic!("{found:?}") };
    assert!(
        line.starts_with("7:warning spec.router.route.http.spec.rules[0].matches[0].path.value: "),
        "{line}"
    );
    // Another server has paths of its own.
    let own =
        format!("{router}  template: {{containers: [{{name: main, image: x, command: [my-server]}}]}}\n");
    let found = finding_lines(&service(&own));
    assert!(!found.iter().any(|line| line.contains("vLLM has no such path")), "{found:?}");
}

#[test]
fn a_port_that_the_service_does_not_have_is_named() {
    let to = |port: u16| with(&format!("{{backendRefs: [{{name: one-kserve-workload-svc, port: {port}}}]}}"));
    assert_eq!(
        to(8080),
        [
            "12:warning spec.rules[0].backendRefs[0].port: is 8080, which Service one-kserve-workload-svc does not have: requests get 500 or \
          503 (write 8000)"
        ]
    );
    assert_eq!(to(8000), [""; 0]);
}

#[test]
fn a_pool_of_the_older_group_is_told_the_newer_one() {
    let found = with(&format!("{{{}}}", POOL.replace(".networking.k8s", ".networking.x-k8s")));
    assert_eq!(
        found,
        [
            "12:warning spec.rules[0].backendRefs[0].group: is inference.networking.x-k8s.io, the older group of InferencePools, which newer \
          Gateways and `longboat up` do not serve: requests get 500 (write `group: inference.networking.k8s.io`)"
        ]
    );
    assert_eq!(with(&format!("{{{POOL}}}")), [""; 0]);
}

#[test]
fn an_expression_that_does_not_compile_is_named_with_the_reason() {
    let at = |matching: &str| with(&format!("{{matches: [{matching}], {POOL}}}"));
    assert_eq!(
        at("{path: {type: RegularExpression, value: '/v1/(chat'}}"),
        [
            "12:warning spec.rules[0].matches[0].path.value: is \"/v1/(chat\", which is no regular expression (unclosed group): no Gateway \
          takes the route (correct it, or match exactly)"
        ]
    );
    assert_eq!(at("{headers: [{type: RegularExpression, name: a, value: '['}]}").len(), 1);
    assert_eq!(at("{path: {type: RegularExpression, value: '/v1/(chat|responses)'}}"), [""; 0]);
}

#[test]
fn a_back_end_that_no_gateway_serves_is_an_error() {
    let to = |reference: &str| with(&format!("{{backendRefs: [{reference}]}}"));
    let path = "12:error spec.rules[0].backendRefs[0].kind: is";
    let why = "to which no gateway sends requests: they get 500";
    for (reference, what, hint) in [
        (
            "{group: serving.kserve.io, kind: InferenceService, name: iris, port: 80}",
            "InferenceService of the group serving.kserve.io",
            "write `kind: Service`, `name: iris-predictor`, and its port",
        ),
        (
            "{group: serving.kserve.io, kind: LLMInferenceService, name: one}",
            "LLMInferenceService of the group serving.kserve.io",
            "write `group: inference.networking.k8s.io`, `kind: InferencePool` and `name: one-inference-pool`, or `kind: Service`, `name: \
             one-kserve-workload-svc` and `port: 8000`",
        ),
        (
            "{kind: InferencePool, name: one-inference-pool}",
            "InferencePool without a group",
            "add `group: inference.networking.k8s.io`",
        ),
        (
            "{group: v1, kind: Service, name: shop, port: 80}",
            "Service of the group v1",
            "remove `group`: that of a Service is empty",
        ),
        (
            "{group: apps, kind: Deployment, name: shop, port: 80}",
            "Deployment of the group apps",
            "write the Service in front of its pods, with its port; a kind of your gateway needs its `group`",
        ),
    ] {
        assert_eq!(to(reference), [format!("{path} {what}, {why} ({hint})")], "{reference}");
    }
    // Gateways have kinds of their own.
    for reference in [
        "{group: gateway.envoyproxy.io, kind: Backend, name: openai}",
        "{group: multicluster.x-k8s.io, kind: ServiceImport, name: far, port: 80}",
    ] {
        assert_eq!(to(reference), [""; 0], "{reference}");
    }
    let rule = "{backendRefs: [{kind: InferencePool, name: a}]}";
    let own = finding_lines(&service(&format!(
        "  router: {{route: {{http: {{spec: {{rules: [{rule}]}}}}}}, gateway: {{}}}}\n"
    )));
    assert_eq!(
        own,
        [format!(
            "7:error spec.router.route.http.spec.rules[0].backendRefs[0].kind: is InferencePool without a group, {why} (add `group: \
             inference.networking.k8s.io`)"
        )]
    );
    // A file with nothing but the route is not ok, either.
    let alone = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {parentRefs: [{name: gw}], rules: [RULE]}\n";
    let report = report(&alone.replace("RULE", rule));
    assert_eq!(report.checked.iter().map(|(_, is_sound)| *is_sound).collect::<Vec<_>>(), [false]);
}

#[test]
fn a_back_end_without_endpoints_is_named() {
    let route = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {parentRefs: [{name: gw}], \
                 rules: [{backendRefs: [{name: away, port: 80}]}]}\n";
    let to = |spec: &str| {
        let away = format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: away}}\nspec: {{{spec}, ports: [{{port: 80}}]}}\n"
        );
        finding_lines(&format!("{}{route}{away}", service("  router: {route: {}}\n")))
    };
    let found = to("type: ExternalName, externalName: example.com");
    let start = "12:warning spec.rules[0].backendRefs[0].name: is away, a Service of type ExternalName, which has no endpoints: ";
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
    assert_eq!(to("selector: {app: away}"), [""; 0]);
}
