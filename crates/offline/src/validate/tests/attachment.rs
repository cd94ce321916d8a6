//! What `validate` says about routes and the Gateways in the same files.

use super::{finding_lines, finding_messages, report};

/// Returns a Gateway `infra/gw` with this listener, which is written in line 7.
fn gateway(listener: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: gw, namespace: infra}}\nspec:\n  \
         gatewayClassName: x\n  listeners:\n  - {{name: web, port: 80, {listener}}}\n---\n"
    )
}

/// Returns a service in the namespace `tenant`, with this router in line 14 of a file after a Gateway.
fn service(router: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: one, namespace: tenant}}\nspec:\n  \
         model: {{uri: hf://org/model}}\n  router: {{{router}, scheduler: {{}}}}\n"
    )
}

const OWN: &str = "route: {}, gateway: {refs: [{name: gw, namespace: infra}]}";

fn namespace(name: &str, team: &str) -> String {
    format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{team: {team}}}}}\n")
}

#[test]
fn a_listener_that_admits_its_own_namespace_only_serves_no_service_of_another() {
    let text = gateway("protocol: HTTP") + &service(OWN);
    let found = report(&text);
    let [finding] = found.findings.as_slice() else { panic!("{found:#?}") };
    assert_eq!(
        finding.line(),
        "f.yaml:14:40: error: spec.router.gateway.refs[0]: Gateway infra/gw allows no HTTPRoute from namespace tenant"
    );
    assert_eq!(
        finding.hint.as_deref(),
        Some(
            "listener web (f.yaml:7:5) admits routes of its own namespace only: set its allowedRoutes.namespaces.from to All, or \
             use a Selector with labels of the namespace"
        )
    );
    assert!(!found.is_clean());
    let open = gateway("protocol: HTTP, allowedRoutes: {namespaces: {from: All}}");
    assert_eq!(finding_lines(&(open + &service(OWN))), [""; 0]);
    let same = text.replace("namespace: tenant", "namespace: infra");
    assert_eq!(finding_lines(&same), [""; 0]);
}

#[test]
fn labels_decide_if_the_namespace_is_in_the_files() {
    let select = |selector: &str| {
        gateway(&format!(
            "protocol: HTTP, allowedRoutes: {{namespaces: {{from: Selector, selector: {selector}}}}}"
        )) + &service(OWN)
    };
    let by_team = select("{matchLabels: {team: a}}");
    // Somebody may have labelled the namespace on the cluster.
    assert_eq!(finding_lines(&by_team), [""; 0]);
    assert_eq!(finding_lines(&(by_team.clone() + &namespace("tenant", "a"))), [""; 0]);
    let warning = "14:40 warning spec.router.gateway.refs[0] NotAllowedByListeners (listener web (f.yaml:7:5) selects namespaces by \
                   labels that Namespace tenant does not have: see allowedRoutes.namespaces.selector)";
    assert_eq!(finding_lines(&(by_team + &namespace("tenant", "b"))), [warning]);
    // The API server gives this label to each namespace.
    assert_eq!(finding_lines(&select("{matchLabels: {kubernetes.io/metadata.name: tenant}}")), [""; 0]);
    assert_eq!(
        finding_lines(&select("{matchLabels: {kubernetes.io/metadata.name: other, team: a}}")),
        [warning]
    );
}

#[test]
fn protocols_and_kinds_without_http_routes_and_other_hostnames_are_named() {
    let reasons = |listener: &str, router: &str| finding_lines(&(gateway(listener) + &service(router)));
    let all = "allowedRoutes: {namespaces: {from: All}}";
    assert_eq!(
        reasons(&format!("protocol: TCP, {all}"), OWN),
        [
            "14:40 error spec.router.gateway.refs[0] NoMatchingParent (listener web (f.yaml:7:5) has protocol TCP, and HTTPRoutes \
             need HTTP or HTTPS)"
        ]
    );
    assert_eq!(
        reasons("protocol: HTTP, allowedRoutes: {namespaces: {from: All}, kinds: [{kind: GRPCRoute}]}", OWN),
        [
            "14:40 error spec.router.gateway.refs[0] NotAllowedByListeners (listener web (f.yaml:7:5) admits GRPCRoute only: add \
             `kind: HTTPRoute` to its allowedRoutes.kinds)"
        ]
    );
    assert_eq!(
        reasons(&format!("protocol: HTTP, {all}"), &OWN.replace("infra}", "infra, sectionName: https}")),
        ["14:40 error spec.router.gateway.refs[0] NoMatchingParent (listener web (f.yaml:7:5) has port 80)"]
    );
    let hosts = |hosts: &str| {
        let http = format!(
            "route: {{http: {{spec: {{parentRefs: [{{name: gw, namespace: infra}}], hostnames: [{hosts}], rules: [{{backendRefs: \
             [{{name: one-inference-pool, group: inference.networking.k8s.io, kind: InferencePool}}]}}]}}}}}}"
        );
        reasons(&format!("protocol: HTTP, hostname: '*.example', {all}"), &http)
    };
    assert_eq!(hosts("llm.example"), [""; 0]);
    assert_eq!(
        hosts("llm.test"),
        [
            "14:78 error spec.router.route.http.spec.hostnames NoMatchingListenerHostname (listener web (f.yaml:7:5) has the \
             hostname *.example)"
        ]
    );
    // Other implementations have protocols of their own.
    assert_eq!(reasons(&format!("protocol: example.com/quic, {all}"), OWN), [""; 0]);
}

#[test]
fn a_route_of_ones_own_is_compared_too() {
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: mine, namespace: infra}\nspec:\n  \
                 parentRefs:\n  - {name: gw, port: 8080}\n  - {name: gw, port: 80}\n  - {name: elsewhere}\n";
    let found = report(&(gateway("protocol: HTTP") + route));
    assert_eq!(
        found.findings.iter().map(super::Finding::line).collect::<Vec<_>>(),
        [
            "f.yaml:12:1: note: spec: refers to objects that are not in these files: Gateway infra/elsewhere",
            "f.yaml:14:5: error: spec.parentRefs[0]: Gateway infra/gw has no listener with the sectionName or port of this parentRef"
        ]
    );
    assert_eq!(found.checked.iter().map(|(_, sound)| *sound).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn what_our_own_class_refuses_is_an_error_if_the_gateway_is_in_the_files() {
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: mine, namespace: infra}\nspec:\n  \
                 parentRefs: [{name: gw}]\n  rules:\n  - matches:\n    - headers: [{type: RegularExpression, name: x-a, value: '(?=a)b'}]\n    \
                 sessionPersistence: {sessionName: x}\n    filters:\n    - {type: RequestRedirect, requestRedirect: {path: {type: \
                 ReplaceFullPath, replaceFullPath: other}}}\n";
    let of_class = |class: &str| {
        let gateway = gateway("protocol: HTTP}\n  - {name: raw, port: 81, protocol: TCP");
        finding_messages(
            &(gateway.replace("gatewayClassName: x", &format!("gatewayClassName: {class}")) + route),
        )
    };
    let ours = of_class("longboat");
    let begins = [
        "18 error spec.rules[0].sessionPersistence: Gateway infra/gw refuses the route, because it does not support this field",
        "20 error spec.rules[0].filters[0].requestRedirect.path.replaceFullPath: Gateway infra/gw refuses the route, because",
        "17 error spec.rules[0].matches[0].headers[0]: Gateway infra/gw refuses the route, because it does not support this field (x-a",
    ];
    for begin in begins {
        assert!(ours.iter().any(|line| line.starts_with(begin)), "{ours:#?}");
    }
    let listener = "8 warning spec.listeners[1]: no client can connect to this listener: this gateway does not serve protocol TCP: use \
                    HTTP or HTTPS";
    assert!(ours.contains(&listener.to_owned()), "{ours:#?}");
    let others = of_class("x");
    assert!(others.iter().all(|line| line.contains("no regular expression")), "{others:#?}");
}
