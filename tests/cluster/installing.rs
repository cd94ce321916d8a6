//! `longboat install` and `longboat uninstall`, each test on its own cluster.

use std::collections::BTreeMap;

use longboat_api::names::preset;
use serde_json::{Value, json};

use crate::{
    cluster::installer::{ask, install, make_available},
    definitions::install_api,
    installation::install_others,
    installed::{at_rest, empty, installed},
    program::Ended,
    wait::until,
};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kserve/deployments/llmisvc-controller-manager";
const NAMESPACES: &str = "/api/v1/namespaces";

fn last_line(ended: &Ended) -> &str {
    ended.stdout.lines().last().unwrap_or_default()
}

#[test]
fn one_command_installs_a_second_run_writes_nothing_and_uninstalling_leaves_nothing() {
    let Some((server, ports, _turn)) = empty() else { return };
    let (first, _controller) = install(&server, ports, &[]);
    assert!(first.status.success(), "{first:#?}");
    let before = at_rest(&server);
    assert!(last_line(&first).starts_with(&format!("{} created, 0 changed", before.len() + 1)), "{first:#?}");
    let configs = before.keys().filter(|name| name.contains("/llminferenceserviceconfigs/kserve/")).count();
    assert_eq!(configs, preset::shipped().count(), "{before:#?}");

    let second = ask(&server, "install", ports, &[]);
    assert!(second.status.success(), "{second:#?}");
    let nothing = format!("0 created, 0 changed, 0 removed, {} unchanged", before.len() + 1);
    assert_eq!(last_line(&second), nothing);
    let elsewhere = ask(&server, "install", ports, &["--namespace=other"]);
    assert!(elsewhere.stderr.contains("expected `--namespace kserve`"), "{elsewhere:#?}");
    assert_eq!(installed(&server), before, "a second run wrote something");

    // Changed values change the objects that use them, and remove objects that are no longer part of the installation.
    let broken = ask(&server, "install", ports, &["--set=replicas=many"]);
    assert!(broken.stderr.contains("values: `replicas`: invalid type: string \"many\""), "{broken:#?}");
    let leftover = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "leftover", "labels": {"longboat.dev/installation": "longboat"}},
        "spec": {"ports": [{"port": 1}]},
    });
    let path = "/api/v1/namespaces/kserve/services/leftover";
    server.api.apply(&format!("{path}?fieldManager=longboat-install"), &leftover).ok();
    let third = ask(&server, "install", ports, &["--set=presetPrefix=kserve-"]);
    assert!(third.stdout.contains("removed Service kserve/leftover"), "{third:#?}");
    assert_eq!(server.api.get(path).status, 404);

    let service = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "model", "namespace": "default"},
        "spec": {"model": {"uri": "hf://a/b"}},
    });
    let services = "/apis/serving.kserve.io/v1alpha2/namespaces/default/llminferenceservices";
    server.api.post(services, &service).ok();
    until("the controller looks after the service", || {
        let service = server.api.get(&format!("{services}/model")).ok();
        service["metadata"]["finalizers"].as_array().filter(|all| !all.is_empty()).map(|_| ())
    });
    let refused = ask(&server, "uninstall", ports, &[]);
    assert!(!refused.status.success());
    assert!(refused.stderr.contains("the cluster has 1 LLMInferenceService (default/model)"), "{refused:#?}");
    assert_eq!(
        installed(&server).into_keys().collect::<Vec<_>>(),
        before.into_keys().collect::<Vec<_>>(),
        "something was removed all the same"
    );

    // A controller ran in another namespace before the installation was moved.
    let labels = json!({"app.kubernetes.io/part-of": "llminferenceservice"});
    let former = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "llmisvc-webhook-ca", "labels": labels},
    });
    server.api.post("/api/v1/namespaces/default/secrets", &former).ok();

    let gone = ask(&server, "uninstall", ports, &["--services=delete", "--crds"]);
    assert!(gone.status.success(), "{gone:#?}");
    assert_eq!(installed(&server), BTreeMap::new(), "{gone:#?}");
    assert_eq!(server.api.get(services).status, 404, "the definitions are still there");
    for namespace in ["kserve", "default"] {
        let secret = format!("/api/v1/namespaces/{namespace}/secrets/llmisvc-webhook-ca");
        assert_eq!(server.api.get(&secret).status, 404, "{namespace}");
    }
    assert_eq!(server.api.get("/api/v1/namespaces/kserve").status, 200, "namespaces stay");

    // Definitions of somebody else stay, and so do their objects.
    for definition in longboat_api::crd::own() {
        install_api(&server.api, &definition);
    }
    let config = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": "mine", "namespace": "default"}, "spec": {},
    });
    let configs = "/apis/serving.kserve.io/v1alpha2/namespaces/default/llminferenceserviceconfigs";
    server.api.post(configs, &config).ok();
    let again = ask(&server, "uninstall", ports, &["--crds"]);
    assert!(again.stderr.contains("This cluster has no objects of an installation."), "{again:#?}");
    assert_eq!(server.api.get(&format!("{configs}/mine")).status, 200);

    // A class whose Gateways exist is not removed.
    let group = "gateway.networking.k8s.io";
    for definition in longboat_api::crd::foreign().iter().filter(|found| found["spec"]["group"] == group) {
        install_api(&server.api, definition);
    }
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": {"name": "longboat", "labels": {"longboat.dev/installation": "longboat"}},
        "spec": {"controllerName": "longboat.dev/gateway"},
    });
    let path = format!("/apis/{group}/v1/gatewayclasses/longboat?fieldManager=longboat-install");
    server.api.apply(&path, &class).ok();
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "models"},
        "spec": {"gatewayClassName": "longboat", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    });
    server.api.post(&format!("/apis/{group}/v1/namespaces/default/gateways"), &gateway).ok();
    let refused = ask(&server, "install", ports, &[]);
    assert!(refused.stderr.contains("Gateway default/models is served by this"), "{refused:#?}");
}

#[test]
fn what_others_wrote_is_named_and_taken_over_only_when_told_to() {
    let Some((server, ports, _turn)) = empty() else { return };
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kserve"}});
    server.api.post(&format!("{NAMESPACES}?fieldManager=somebody"), &namespace).ok();
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {
            "name": "llmisvc-controller-manager", "namespace": "kserve", "labels": {"chart": "a-chart-1.0"},
        },
    });
    let accounts = "/api/v1/namespaces/kserve/serviceaccounts";
    server.api.post(&format!("{accounts}?fieldManager=a-chart"), &account).ok();
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inferenceservice-config", "namespace": "kserve"},
        "data": {
            "ingress": r#"{"ingressGateway": "a/b", "kserveIngressGateway": "a/b"}"#,
            "storageInitializer": r#"{"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Gi", "memoryLimit": "1Gi"}"#,
        },
    });
    let config_map = "/api/v1/namespaces/kserve/configmaps/inferenceservice-config";
    server.api.post("/api/v1/namespaces/kserve/configmaps?fieldManager=a-chart", &settings).ok();

    let refused = ask(&server, "install", ports, &["--timeout=1"]);
    let expected = "ServiceAccount kserve/llmisvc-controller-manager, written by a-chart";
    assert!(!refused.status.success() && refused.stderr.contains(expected), "{refused:#?}");
    assert_eq!(installed(&server), BTreeMap::new(), "something was written all the same");

    server.api.delete(&format!("{accounts}/llmisvc-controller-manager")).ok();
    let before = server.api.get(config_map).ok();
    let (first, _controller) = install(&server, ports, &[]);
    assert!(first.status.success(), "{first:#?}");
    assert!(
        first.stderr.contains("ConfigMap kserve/inferenceservice-config exists, written by a-chart"),
        "{first:#?}"
    );
    assert_eq!(server.api.get(config_map).ok(), before);
    assert_eq!(
        server.api.get(&format!("{NAMESPACES}/kserve")).ok()["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": "kserve"}),
        "whoever made the namespace keeps it"
    );

    // As in the release of another product, whose objects `install` takes over.
    let scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 5},
        "metadata": {"annotations": {"meta.helm.sh/release-name": "other"}}});
    server.api.apply(&format!("{DEPLOYMENT}?fieldManager=autoscaler&force=true"), &scaled).ok();
    let conflict = ask(&server, "install", ports, &[]);
    assert!(!conflict.status.success());
    for part in [
        "cannot write Deployment kserve/llmisvc-controller-manager",
        r#".spec.replicas: conflict with "autoscaler""#,
        "--force-conflicts",
    ] {
        assert!(conflict.stderr.contains(part), "{part}: {conflict:#?}");
    }
    assert_eq!(server.api.get(DEPLOYMENT).ok()["spec"]["replicas"], 5);
    let late = ask(&server, "install", ports, &["--force-conflicts", "--timeout=1"]);
    let expected =
        "timed out after 1 s: Deployment kserve/llmisvc-controller-manager has 2 of 2 replicas available";
    assert!(late.stderr.contains(expected) || late.status.success(), "{late:#?}");
    make_available(&server);
    let taken = ask(&server, "install", ports, &["--force-conflicts"]);
    assert!(taken.status.success(), "{taken:#?}");
    assert_eq!(server.api.get(DEPLOYMENT).ok()["spec"]["replicas"], 2);

    // With `--services=keep`, presets, CRDs and platform settings stay, because another controller may use them.
    let kept = ask(&server, "uninstall", ports, &["--services=keep"]);
    assert!(kept.status.success(), "{kept:#?}");
    assert_eq!(server.api.get(DEPLOYMENT).status, 404);
    let left: Vec<String> = installed(&server).into_keys().collect();
    assert!(
        left.iter().all(|name| name.contains("llminferenceserviceconfigs")
            || name.contains("customresourcedefinitions")
            || name.contains("configmaps")),
        "{left:#?}"
    );
}

#[test]
fn pod_security_restricted_admits_the_controller_and_would_refuse_less() {
    let Some((server, ports, _turn)) = empty() else { return };
    let printed = ask(&server, "install", ports, &["--dry-run", "--output=json"]).ok();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let objects = printed["items"].as_array().unwrap();
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": labels}});
    server.api.post(NAMESPACES, &namespace).ok();
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "llmisvc-controller-manager", "namespace": "strict"},
    });
    server.api.post("/api/v1/namespaces/strict/serviceaccounts", &account).ok();
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "controller".into();
    let pods = "/api/v1/namespaces/strict/pods";
    server.api.post(pods, &pod).ok();

    pod["metadata"]["name"] = "careless".into();
    pod["spec"]["containers"][0]["securityContext"]["capabilities"] = json!({});
    let refused = server.api.post(pods, &pod);
    assert_eq!(refused.status, 403, "{refused:#?}");
    assert!(refused.message().contains("violates PodSecurity \"restricted"), "{refused:#?}");
}

#[test]
fn with_rights_in_some_namespaces_only_it_is_installed_trusted_and_looks_at_nothing_else() {
    let Some((server, ports, _turn)) = empty() else { return };
    install_others(&server);
    for name in ["mine", "other"] {
        server.api.make_namespace(name);
    }
    let confined = "--set=watchNamespaces=[mine]";
    let (first, _controller) = install(&server, ports, &[confined]);
    assert!(first.status.success(), "{first:#?}");
    let before = at_rest(&server);
    assert!(!before.keys().any(|name| name.contains("/clusterrole")), "{before:#?}");
    let second = ask(&server, "install", ports, &[confined]);
    assert_eq!(
        last_line(&second),
        format!("0 created, 0 changed, 0 removed, {} unchanged", before.len() + 1),
        "{second:#?}"
    );
    assert_eq!(installed(&server), before, "a second run wrote something");

    // The webhooks judge services in every namespace. The controller reconciles only those of its own namespaces.
    let service = |name: &str, spec: Value| {
        json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": name}, "spec": spec,
        })
    };
    let services =
        |within: &str| format!("/apis/serving.kserve.io/v1alpha2/namespaces/{within}/llminferenceservices");
    let broken = service("broken", json!({"model": {"uri": "hf://a/b"}, "router": {"route": {"weight": 1}}}));
    let denied = server.api.post(&services("mine"), &broken);
    assert!(denied.status == 422 && denied.message().contains("denied the request"), "{denied:#?}");
    for within in ["other", "mine"] {
        let made = server.api.post(&services(within), &service("llm", json!({"model": {"uri": "hf://a/b"}})));
        assert_eq!(made.ok()["spec"]["model"]["name"], "llm", "nobody completes it");
    }
    let deployment =
        |within: &str| server.api.get(&format!("/apis/apps/v1/namespaces/{within}/deployments/llm-kserve"));
    until("our service has its workload and a status", || {
        let service = server.api.get(&format!("{}/llm", services("mine"))).ok();
        deployment("mine").status == 200 && service["status"]["observedGeneration"] == 1
    });
    assert_eq!(deployment("other").status, 404);
    let theirs = server.api.get(&format!("{}/llm", services("other"))).ok();
    assert!(theirs["metadata"]["finalizers"].is_null() && theirs["status"].is_null(), "{theirs:#}");

    // On a cluster, the controller's pods would end before the controller loses its rights.
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
    let gone = ask(&server, "uninstall", ports, &["--services=delete", "--crds"]);
    assert!(gone.status.success(), "{gone:#?}");
    assert_eq!(installed(&server), BTreeMap::new(), "{gone:#?}");
}
