//! `longboat doctor` and `longboat status` on the real API server: they report seeded faults, and no longer report repaired
//! ones.

use std::{path::Path, process::Command};

use serde_json::{Value, json};

use crate::{
    cluster::{ExclusiveCluster, installer::make_available},
    program::{Ended, run},
    snapshot::children,
    wait::until,
};

const NAMESPACE: &str = "ill";
const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/kserve-llmisvc-manager-role";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const CONTROLLER: &str = "/apis/apps/v1/namespaces/kserve/deployments";
const GATEWAY_API: &str = "/apis/gateway.networking.k8s.io/v1";
const SERVICES: &str = "/apis/serving.kserve.io/v1alpha2/namespaces/ill/llminferenceservices";

fn longboat(cluster: &ExclusiveCluster, arguments: &[&str]) -> Ended {
    let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_longboat")));
    command.env("KUBECONFIG", &cluster.server.kubeconfig).env_remove("RUST_LOG");
    run(command.args(arguments))
}

/// Creates the namespace, if the other test has not done so.
fn make_namespace(cluster: &ExclusiveCluster) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    cluster.server.api.post("/api/v1/namespaces", &namespace);
}

/// Returns the doctor's findings: fault, object, cause and fix in one line each.
fn findings(cluster: &ExclusiveCluster) -> Vec<String> {
    let ended = longboat(cluster, &["doctor", "-n", NAMESPACE, "--no-requests", "-o", "json"]);
    let found: Vec<Value> =
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"));
    let broken = found.iter().any(|finding| finding["severity"] == "broken");
    assert_eq!(ended.status.code(), Some(i32::from(broken)), "{ended:#?}");
    let text = |finding: &Value| {
        let part = |field: &str| finding[field].as_str().unwrap().to_owned();
        format!("{} {}: {} | {}", part("fault"), part("object"), part("cause"), part("fix"))
    };
    found.iter().map(text).collect()
}

/// Waits until one finding contains all `parts`.
#[track_caller]
fn found(cluster: &ExclusiveCluster, parts: &[&str]) {
    let mut last = Vec::new();
    until(&format!("{parts:?} is found"), || {
        last = findings(cluster);
        last.iter().any(|finding| parts.iter().all(|part| finding.contains(part)))
    });
}

/// Waits until no finding has this fault.
#[track_caller]
fn mended(cluster: &ExclusiveCluster, fault: &str) {
    until(&format!("{fault} is mended"), || {
        findings(cluster).iter().all(|finding| !finding.starts_with(fault))
    });
}

/// Returns an object without the metadata that the server sets, so that it can be created again.
fn anew(mut object: Value) -> Value {
    for field in ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    object
}

#[test]
fn seeded_faults_are_found_and_are_gone_when_mended() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    make_namespace(&cluster);

    // The controller of this cluster is a plain process. Its Deployment exists only as an object.
    let path = format!("{CONTROLLER}/llmisvc-controller-manager");
    let deployment = anew(api.get(&path).ok());
    api.delete(&path).ok();
    found(&cluster, &["ControllerMissing", "longboat install"]);
    api.post(CONTROLLER, &deployment).ok();
    found(&cluster, &["ControllerNotReady"]);
    make_available(&cluster.server);
    mended(&cluster, "ControllerNotReady");
    let well = findings(&cluster);
    assert!(
        well.iter().all(|finding| !finding.starts_with("Rights") && !finding.starts_with("Preset")),
        "{well:#?}"
    );
    assert!(
        well.iter().all(|finding| !finding.starts_with("Webhook") && !finding.starts_with("Conv")),
        "{well:#?}"
    );

    let role = api.get(ROLE).ok();
    let mut rules = role["rules"].clone();
    let scaled =
        rules.as_array_mut().unwrap().iter_mut().find(|rule| rule["apiGroups"] == json!(["keda.sh"]));
    scaled.unwrap()["verbs"] = json!(["get", "list", "watch", "create", "update"]);
    api.merge(ROLE, &json!({"rules": rules})).ok();
    found(&cluster, &["RightsMissing", "may not delete scaledobjects.keda.sh"]);
    api.merge(ROLE, &json!({"rules": role["rules"]})).ok();
    mended(&cluster, "RightsMissing");

    let path = format!("{WEBHOOKS}/llminferenceservice.serving.kserve.io");
    let mut webhooks = anew(api.get(&path).ok());
    api.delete(&path).ok();
    found(&cluster, &["WebhookMissing", "ValidatingWebhookConfiguration llminferenceservice"]);
    let working = webhooks.clone();
    for webhook in webhooks["webhooks"].as_array_mut().unwrap() {
        // Nothing listens at this port.
        webhook["clientConfig"]["url"] = json!("https://127.0.0.1:1/validate");
    }
    api.post(WEBHOOKS, &webhooks).ok();
    found(&cluster, &["WebhookFails", "failed calling webhook"]);
    api.delete(&path).ok();
    api.post(WEBHOOKS, &working).ok();
    mended(&cluster, "WebhookFails");

    let preset = "/apis/serving.kserve.io/v1alpha2/namespaces/kserve/llminferenceserviceconfigs/kserve-config-llm-tracing";
    let before = api.get(preset).ok();
    api.merge(preset, &json!({"spec": {"tracing": {"sampler": "always_on"}}})).ok();
    found(&cluster, &["PresetDiffers", "kserve-config-llm-tracing", "longboat diff"]);
    let spec = json!([{"op": "replace", "path": "/spec", "value": before["spec"]}]);
    api.patch(preset, &spec).ok();
    mended(&cluster, "PresetDiffers");
}

#[test]
fn a_service_that_is_not_ready_is_followed_to_the_first_cause() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    make_namespace(&cluster);
    let make = |name: &str, mut spec: Value| {
        spec["model"] = json!({"uri": "hf://org/model"});
        let object = json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": name}, "spec": spec,
        });
        api.post(SERVICES, &object).ok();
    };

    make("layered", json!({"baseRefs": [{"name": "kserve-config-llm-tracng"}]}));
    found(
        &cluster,
        &["ConfigNotFound LLMInferenceService ill/layered", "did you mean `kserve-config-llm-tracing`"],
    );
    let status = longboat(&cluster, &["status", "-n", NAMESPACE]);
    assert_eq!(status.status.code(), Some(1), "{status:#?}");
    assert!(status.stdout.contains("ill/layered") && status.stdout.contains("ConfigNotFound"), "{status:#?}");
    api.delete(&format!("{SERVICES}/layered")).ok();

    let gateways = format!("{GATEWAY_API}/namespaces/{NAMESPACE}/gateways");
    make("routed", json!({"router": {"route": {}, "gateway": {"refs": [{"name": "own"}]}}}));
    found(&cluster, &["GatewayMissing LLMInferenceService ill/routed", "there is no Gateway ill/own"]);
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "own"},
        "spec": {"gatewayClassName": "none", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    });
    api.post(&gateways, &gateway).ok();
    found(&cluster, &["GatewayClassMissing LLMInferenceService ill/routed", "there is no GatewayClass none"]);
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "none"},
        "spec": {"controllerName": "example.com/nobody"},
    });
    api.post(&format!("{GATEWAY_API}/gatewayclasses"), &class).ok();
    found(&cluster, &["GatewayControllerSilent LLMInferenceService ill/routed", "example.com/nobody"]);
    api.delete(&format!("{GATEWAY_API}/gatewayclasses/none")).ok();

    // The cluster has no nodes, so the test writes the pod status that a kubelet would.
    let deployment = until("the workload is there", || {
        let answer = api.get(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/routed-kserve"));
        (answer.status == 200).then_some(answer.body)
    });
    let template = &deployment["spec"]["template"];
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    api.post(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), &account);
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "routed-1", "labels": template["metadata"]["labels"]},
        "spec": {"containers": [{"name": "main", "image": "example.com/vllm:none"}]},
    });
    api.post(&pods, &pod).ok();
    let says = |status: Value| api.merge(&format!("{pods}/routed-1/status"), &json!({"status": status})).ok();
    says(json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    }]}));
    found(&cluster, &["PodUnschedulable LLMInferenceService ill/routed", "device plugin"]);
    says(json!({
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{
            "name": "main", "image": "example.com/vllm:none", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}},
        }],
    }));
    found(&cluster, &["ImageNotPulled LLMInferenceService ill/routed", "no such tag", "imagePullSecrets"]);
    let status = longboat(&cluster, &["status", "-n", NAMESPACE, "routed"]);
    assert!(
        status.stdout.contains(
            "Pod routed-1  container main: image example.com/vllm:none cannot be pulled: no such tag"
        ),
        "{status:#?}"
    );

    api.delete(&format!("{pods}/routed-1?gracePeriodSeconds=0")).ok();
    api.delete(&format!("{SERVICES}/routed")).ok();
    until("the service is gone", || api.get(&format!("{SERVICES}/routed")).status == 404);
    for child in children(api, NAMESPACE) {
        api.delete(&child);
    }
    api.delete(&format!("{gateways}/own")).ok();
}
