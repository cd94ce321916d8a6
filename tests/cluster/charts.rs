//! Helm installs the charts of `deploy/helm`, in the order of docs/guides/helm.md.

use std::{collections::BTreeSet, path::Path, process::Command};

use longboat_api::names::preset;
use serde_json::{Value, json};

use crate::{
    cluster::installer::{Ports, make_available, start_controller},
    installation::{install_others, make_service, served},
    installed::{at_rest, empty, installed},
    program::{Running, run},
    server::{Program, Server},
    tools,
    wait::until,
};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kserve/deployments/llmisvc-controller-manager";
const SERVICES: &str = "/apis/serving.kserve.io/v1alpha2/namespaces/default/llminferenceservices";
const CONFIGS: &str = "/apis/serving.kserve.io/v1alpha2/namespaces/kserve/llminferenceserviceconfigs";
const CERTIFICATE: &str = "/api/v1/namespaces/kserve/secrets/llmisvc-webhook-chart-cert";
const GUARD: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/\
                     llminferenceserviceconfig.serving.kserve.io";

/// Returns a Helm command that runs as the administrator and ignores the user's own Helm settings.
fn helm(program: &Path, server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.env("KUBECONFIG", &server.kubeconfig).env("HOME", &server.folder);
    for (variable, folder) in
        [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
    {
        command.env(variable, server.folder.join("helm").join(folder));
    }
    command.args(arguments).args(["--namespace=kserve"]);
    command
}

/// Puts the charts together. Returns the paths of the controller's and the presets'.
fn charts(server: &Server) -> (String, String) {
    let folder = server.folder.join("charts");
    let put = Command::new(tools::root().join("scripts/charts.sh")).arg(&folder).output().unwrap();
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    let path = |name| folder.join(name).display().to_string();
    (path("longboat"), path("longboat-presets"))
}

/// Creates the ReplicaSet of the controller's Deployment, as the Deployment controller would. `helm install --wait` looks at
/// it.
fn make_replica_set(server: &Server) {
    let deployment = server.api.get(DEPLOYMENT).ok();
    let (metadata, spec) = (&deployment["metadata"], &deployment["spec"]);
    let mut template = spec["template"].clone();
    template["metadata"]["labels"]["pod-template-hash"] = "1".into();
    let labels = &template["metadata"]["labels"];
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "llmisvc-controller-manager-1", "labels": labels, "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "uid": metadata["uid"],
            "controller": true,
        }]},
        "spec": {"replicas": spec["replicas"], "selector": {"matchLabels": labels}, "template": template},
    });
    let sets = "/apis/apps/v1/namespaces/kserve/replicasets";
    server.api.post(sets, &set).ok();
    let ready = json!({"status": {
        "observedGeneration": 1, "replicas": spec["replicas"], "readyReplicas": spec["replicas"],
    }});
    server.api.merge(&format!("{sets}/llmisvc-controller-manager-1/status"), &ready).ok();
}

/// Runs `helm install --wait` and, as the cluster would, runs the controller of the Deployment that Helm creates.
fn wait_for_controller(server: &Server, ports: Ports, mut install: Command) -> Program {
    let mut installing = Running::start(install.args(["--wait", "--timeout=3m"]));
    let deployment = until("the controller's Deployment is written", || {
        let ended = installing.has_ended();
        assert!(!ended, "Helm gave up: {}", installing.stderr());
        Some(server.api.get(DEPLOYMENT)).filter(|answer| answer.status == 200)
    });
    let controller = start_controller(server, &deployment.ok(), ports);
    make_available(server);
    make_replica_set(server);
    installing.end().ok();
    controller
}

/// Creates the other objects that services need: third-party CRDs, and the Gateway that the settings name.
fn make_platform(server: &Server) {
    install_others(server);
    server.api.make_namespace("kserve");
    let text =
        std::fs::read_to_string(tools::root().join("crates/compose/src/platform/objects.yaml")).unwrap();
    let group = "/apis/gateway.networking.k8s.io/v1";
    for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
        match object["kind"].as_str() {
            Some("GatewayClass") => drop(server.api.post(&format!("{group}/gatewayclasses"), &object).ok()),
            Some("Gateway") => {
                drop(server.api.post(&format!("{group}/namespaces/kserve/gateways"), &object).ok());
            }
            _ => {}
        }
    }
}

/// Returns the paths at which two objects differ, except for the metadata that every write changes.
fn differences(before: &Value, after: &Value) -> Vec<String> {
    let stripped = |object: &Value| {
        let mut object = object.clone();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.retain(|key, _| !["resourceVersion", "generation", "managedFields"].contains(&key.as_str()));
        object
    };
    let patch = json_patch::diff(&stripped(before), &stripped(after));
    patch.0.iter().map(|operation| operation.path().to_string()).collect()
}

#[test]
fn the_charts_install_upgrade_and_go_in_the_order_that_is_told() {
    let Some((server, ports, _turn)) = empty() else { return };
    let Some(program) = tools::tool("bin/helm") else { return };
    let helm = |arguments: &[&str]| helm(&program, &server, arguments);
    make_platform(&server);

    let (longboat, presets) = charts(&server);
    let url = format!("--set=webhookUrl=https://127.0.0.1:{}", ports.webhooks);
    let install =
        ["install", "longboat", &longboat, "--create-namespace", &url, "--set=metrics.enabled=false"];
    let _controller = wait_for_controller(&server, ports, helm(&install));
    run(&mut helm(&["install", "longboat-presets", &presets])).ok();
    let before = at_rest(&server);
    let configs = before.keys().filter(|name| name.contains("/llminferenceserviceconfigs/kserve/")).count();
    assert_eq!(configs, preset::shipped().count(), "{before:#?}");

    make_service(&server, "default", "llm");
    served(&server, "default", "llm");

    // Changed values change only the objects that use them. Unchanged values change nothing.
    let before = at_rest(&server);
    let deployment = server.api.get(DEPLOYMENT).ok();
    for _ in 0..2 {
        let upgrade = ["upgrade", "longboat", &longboat, "--reuse-values", "--set=logLevel=debug"];
        run(&mut helm(&upgrade)).ok();
        run(&mut helm(&["upgrade", "longboat-presets", &presets])).ok();
        let after = installed(&server);
        let changed: BTreeSet<&str> = before
            .keys()
            .chain(after.keys())
            .filter(|name| before.get(*name) != after.get(*name))
            .map(String::as_str)
            .collect();
        assert_eq!(changed, BTreeSet::from(["apis/apps/v1/deployments/kserve/llmisvc-controller-manager"]));
    }
    let upgraded = server.api.get(DEPLOYMENT).ok();
    let differences = differences(&deployment, &upgraded);
    assert!(
        differences.len() == 1 && differences[0].starts_with("/spec/template/spec/containers/0/env/"),
        "{differences:?}"
    );
    assert_eq!(upgraded["metadata"]["generation"], 2);

    // The webhook that protects presets also refuses Helm's deletion of them. Once the webhook configuration is deleted, the
    // running controller removes their finalizers.
    server.api.delete(&format!("{SERVICES}/llm")).ok();
    until("the service is gone", || server.api.get(&format!("{SERVICES}/llm")).status == 404);
    let refused = run(&mut helm(&["uninstall", "longboat-presets"]));
    assert!(!refused.status.success(), "{refused:#?}");
    let kept = server.api.get(CONFIGS).ok();
    let going = |config: &&Value| !config["metadata"]["deletionTimestamp"].is_null();
    assert_eq!(kept["items"].as_array().unwrap().len(), configs);
    assert_eq!(kept["items"].as_array().unwrap().iter().find(going), None);
    server.api.delete(GUARD).ok();
    run(&mut helm(&["uninstall", "longboat-presets", "--wait", "--timeout=3m"])).ok();
    assert_eq!(server.api.get(CONFIGS).ok()["items"], json!([]));
    // On a cluster, the controller's pods would end soon after the controller loses its rights.
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
    run(&mut helm(&["uninstall", "longboat"])).ok();
    let left: Vec<String> = installed(&server).into_keys().collect();
    let kinds = ["llminferenceserviceconfigs", "llminferenceservices"];
    let definition =
        |kind| format!("apis/apiextensions.k8s.io/v1/customresourcedefinitions//{kind}.serving.kserve.io");
    assert_eq!(left, kinds.map(definition));
    // Nothing is left that would keep a second installation from succeeding.
    run(&mut helm(&[&install[..], &["--dry-run=server"]].concat())).ok();
}

#[test]
fn confined_to_namespaces_the_chart_has_api_servers_trust_a_certificate_that_it_makes_once() {
    let Some((server, ports, _turn)) = empty() else { return };
    let Some(program) = tools::tool("bin/helm") else { return };
    let helm = |arguments: &[&str]| helm(&program, &server, arguments);
    make_platform(&server);
    server.api.make_namespace("models");

    let (longboat, presets) = charts(&server);
    let url = format!("--set=webhookUrl=https://127.0.0.1:{}", ports.webhooks);
    let confined = ["--set=watchNamespaces={models}", "--set=metrics.enabled=false"];
    let install = [&["install", "longboat", &longboat, &url], &confined[..]].concat();
    let _controller = wait_for_controller(&server, ports, helm(&install));
    // A webhook admits each preset.
    run(&mut helm(&["install", "longboat-presets", &presets])).ok();
    make_service(&server, "models", "llm");
    served(&server, "models", "llm");
    let older = "/apis/serving.kserve.io/v1alpha1/namespaces/models/llminferenceservices/llm";
    assert_eq!(server.api.get(older).ok()["apiVersion"], "serving.kserve.io/v1alpha1");

    let trusted = || {
        let secret = server.api.get(CERTIFICATE).ok()["data"].clone();
        let bundle = server.api.get(GUARD).ok()["webhooks"][0]["clientConfig"]["caBundle"].clone();
        assert_eq!(bundle, secret["ca.crt"]);
        secret
    };
    let before = trusted();
    run(&mut helm(&["upgrade", "longboat", &longboat, "--reuse-values", "--set=logLevel=debug"])).ok();
    assert_eq!(trusted(), before);
    assert!(server.refusals().is_empty(), "refused: {:#?}", server.refusals());
}
