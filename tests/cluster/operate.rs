//! The controller as operators run it: started before anything is installed, in several replicas, and ended in any way. These
//! tests have their own clusters, because they start and end controllers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    api::block,
    cluster::kubectl,
    installation::{credentials, install, make_service, prepared, served},
    replica::Replica,
    server::Server,
    tools,
    wait::until,
};

const LEASE: &str =
    "/apis/coordination.k8s.io/v1/namespaces/kserve/leases/llminferenceservice-kserve-controller-manager";

fn holder(server: &Server) -> String {
    let lease = server.api.get(LEASE);
    lease.body["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// Counts the create requests for each child of a namespace, successful or not, without dry runs.
fn creations(server: &Server, namespace: &str) -> BTreeMap<String, usize> {
    let log = std::fs::read_to_string(server.folder.join("audit.log")).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for event in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let object = &event["objectRef"];
        let dry = event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun"));
        if event["verb"] == "create"
            && object["namespace"] == namespace
            && object["resource"] != "events"
            && !dry
        {
            *counts
                .entry(format!("{} {} {}", object["apiGroup"], object["resource"], object["name"]))
                .or_default() += 1;
        }
    }
    counts
}

/// Gets the metrics over HTTPS. Returns status code and body.
fn metrics(port: u16, token: Option<&str>) -> (u16, String) {
    // As Prometheus, which prefers HTTP/2.
    let tls = longboat_tls::insecure_client_config(&[b"h2", b"http/1.1"]);
    let client =
        reqwest::Client::builder().tls_backend_preconfigured((*tls).clone()).no_proxy().build().unwrap();
    let mut request = client.get(format!("https://127.0.0.1:{port}/metrics"));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    block(async {
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    })
}

fn metrics_are_for_those_who_may_read_them(server: &Server, port: u16) {
    let account = |name: &str| {
        let accounts = "/api/v1/namespaces/kserve/serviceaccounts";
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        server.api.post(accounts, &object).ok();
        server.token(name)
    };
    let (stranger, scraper) = (account("stranger"), account("scraper"));
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "scraper"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "llmisvc-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "kserve"}],
    });
    server.api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).ok();
    assert_eq!(metrics(port, None).0, 401);
    assert_eq!(metrics(port, Some("made-up")).0, 401);
    assert_eq!(metrics(port, Some(&stranger)).0, 403);
    let page = until("a scraper is let in", || {
        Some(metrics(port, Some(&scraper))).filter(|(status, _)| *status == 200).map(|(_, page)| page)
    });
    let host = format!("host=\"{}\"", server.url.trim_start_matches("https://"));
    assert!(page.contains("longboat_build_info") && page.contains(&host), "{page}");
}

#[test]
fn it_stays_up_in_an_empty_cluster_and_replicas_succeed_each_other_however_they_end() {
    let Some(server) = prepared() else { return };
    let kubeconfig = credentials(&server, "controller");
    let replica = || Replica::start(&kubeconfig, &["--leader-elect"]);

    let mut first = replica();
    first.ready();
    until("the only replica leads", || first.leads());
    let leading = holder(&server);
    let mut second = replica();
    second.ready();

    install(&server);
    server.api.make_namespace("ops");
    make_service(&server, "ops", "one");
    served(&server, "ops", "one");
    first.assert_running();
    assert!(!second.leads(), "{}", second.log());
    assert_eq!(holder(&server), leading);

    // Reconciles are in progress when the leader is asked to stop.
    for name in ["two", "three", "four"] {
        make_service(&server, "ops", name);
    }
    assert!(first.end("-TERM").success());
    until("the second replica leads", || second.leads());
    for name in ["two", "three", "four"] {
        served(&server, "ops", name);
    }
    let lease = server.api.get(LEASE).ok();
    assert_eq!(lease["spec"]["leaseTransitions"], 1, "{lease:#}");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15, "{lease:#}");

    let mut third = replica();
    third.ready();
    metrics_are_for_those_who_may_read_them(&server, third.metrics);
    make_service(&server, "ops", "five");
    assert!(!second.end("-KILL").success());
    make_service(&server, "ops", "six");
    until("the third replica leads", || third.leads());
    for name in ["five", "six"] {
        served(&server, "ops", name);
    }
    let twice: Vec<_> = creations(&server, "ops").into_iter().filter(|(_, count)| *count > 1).collect();
    assert!(twice.is_empty(), "written twice: {twice:#?}");
    assert_eq!(server.api.get(LEASE).ok()["spec"]["leaseTransitions"], 2);
    assert!(third.end("-TERM").success());
    assert_eq!(holder(&server), "");
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}

#[test]
fn confined_to_a_namespace_it_needs_rights_in_namespaces_only_and_asks_for_no_others() {
    let Some(server) = Server::start() else { return };
    if tools::kubectl().is_none() {
        return;
    }
    for name in ["kserve", "mine", "other"] {
        server.api.make_namespace(name);
    }
    let deploy = tools::root().join("deploy");
    for (within, file) in [
        ("kserve", "rbac/service-account.yaml"),
        ("kserve", "rbac/leader-election.yaml"),
        ("kserve", "rbac-namespaced/platform"),
        ("mine", "rbac-namespaced/watched"),
    ] {
        let path = deploy.join(file);
        kubectl(&server, &["apply", "--server-side", "-n", within, "-f", path.to_str().unwrap()]).ok();
    }
    let kubeconfig = credentials(&server, "controller");
    let mut replica =
        Replica::start(&kubeconfig, &["--leader-elect", "--namespace=mine", "--zap-encoder=json"]);
    replica.ready();
    install(&server);
    make_service(&server, "other", "theirs");
    make_service(&server, "mine", "llm");
    served(&server, "mine", "llm");
    replica.assert_running();
    assert_eq!(creations(&server, "other"), BTreeMap::new());
    let theirs = "/apis/serving.kserve.io/v1alpha2/namespaces/other/llminferenceservices/theirs";
    assert!(server.api.get(theirs).ok()["metadata"]["finalizers"].is_null());
    let ours = "/apis/serving.kserve.io/v1alpha2/namespaces/mine/llminferenceservices/llm";
    server.api.delete(ours).ok();
    until("the service is gone", || server.api.get(ours).status == 404);
    for line in replica.log().lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"] == "INFO" && line["message"].is_string(), "{line:#}");
    }
    assert!(replica.end("-TERM").success());
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}
