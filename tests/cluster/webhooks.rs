//! A real API server trusts and calls the controller's admission webhooks.

use serde_json::{Value, json};

use crate::{
    cluster::{ExclusiveCluster, collection},
    log::Log,
    wait::until,
};

fn service(version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("serving.kserve.io/{version}"),
        "kind": "LLMInferenceService",
        "metadata": {"name": "llm", "namespace": "default"},
        "spec": spec,
    })
}

fn config(version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("serving.kserve.io/{version}"),
        "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": "own", "namespace": "default"},
        "spec": spec,
    })
}

/// Creates an object as a dry run.
fn dry(cluster: &ExclusiveCluster, object: &Value) -> crate::api::Answer {
    cluster.server.api.post(&format!("{}?dryRun=All", collection(object)), object)
}

#[test]
fn the_api_server_is_told_to_trust_the_controllers_own_ca() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let group = "/apis/admissionregistration.k8s.io/v1";
    let bundle = |value: &Value| value["clientConfig"]["caBundle"].as_str().map(str::len).unwrap_or_default();
    for path in [
        "mutatingwebhookconfigurations/llminferenceservice.serving.kserve.io",
        "validatingwebhookconfigurations/llminferenceservice.serving.kserve.io",
        "validatingwebhookconfigurations/llminferenceserviceconfig.serving.kserve.io",
    ] {
        let configuration = cluster.server.api.get(&format!("{group}/{path}")).ok();
        let webhooks = configuration["webhooks"].as_array().unwrap();
        assert_eq!(webhooks.len(), 2, "one for each version: {configuration:#}");
        assert!(webhooks.iter().all(|webhook| bundle(webhook) > 0), "{configuration:#}");
    }
    for kind in ["llminferenceservices", "llminferenceserviceconfigs"] {
        let path =
            format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}.serving.kserve.io");
        let crd = cluster.server.api.get(&path).ok();
        assert!(bundle(&crd["spec"]["conversion"]["webhook"]) > 0, "{:#}", crd["spec"]["conversion"]);
    }
}

#[test]
fn a_service_is_completed_and_nothing_else_of_it_is_touched() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    for version in ["v1alpha1", "v1alpha2"] {
        let spec = json!({"model": {"uri": "hf://org/model"}, "replicas": 0, "router": {"route": {}}});
        let stored = dry(&cluster, &service(version, &spec)).ok();
        let expected = json!({
            "model": {"uri": "hf://org/model", "name": "llm"}, "replicas": 0, "router": {"route": {}},
        });
        assert_eq!(stored["spec"], expected, "{version}");
    }
}

#[test]
fn nobody_is_asked_about_finalizers() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    cluster.namespace("finalizers");
    let log = Log::new(&cluster);
    let mark = log.mark();
    let mut stopped = service("v1alpha2", &json!({"model": {"uri": "hf://org/model"}}));
    stopped["metadata"]["namespace"] = json!("finalizers");
    stopped["metadata"]["annotations"] = json!({"serving.kserve.io/stop": "true"});
    cluster.server.api.post(&collection(&stopped), &stopped).ok();
    let patches = until("the controller adds its finalizer", || {
        let all = log.events(mark).into_iter().filter(|event| {
            event["verb"] == "patch"
                && event["objectRef"]["resource"] == "llminferenceservices"
                && event["objectRef"]["subresource"].is_null()
        });
        Some(all.collect::<Vec<_>>()).filter(|all| !all.is_empty())
    });
    for patch in patches {
        let notes = patch["annotations"].as_object().unwrap();
        let asked: Vec<_> = notes.keys().filter(|note| note.starts_with("mutation.webhook.")).collect();
        assert!(asked.is_empty(), "{patch:#}");
    }
}

#[test]
fn a_denial_names_the_webhook_and_lists_every_cause() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    for version in ["v1alpha1", "v1alpha2"] {
        let spec = json!({
            "model": {"uri": "hf://org/model"},
            "parallelism": {"pipeline": 2, "data": 2, "dataLocal": 1},
            "router": {"route": {"weight": 1}},
        });
        let denied = dry(&cluster, &service(version, &spec));
        let hook = format!("llminferenceservice.kserve-webhook-server.{version}.validator");
        let start = format!("admission webhook \"{hook}\" denied the request: ");
        assert_eq!(denied.status, 422, "{:#}", denied.body);
        assert_eq!(denied.body["reason"], "Invalid");
        assert!(denied.message().starts_with(&start), "{:#}", denied.body);
        assert_eq!(denied.body["details"]["kind"], "LLMInferenceService");
        assert_eq!(denied.body["details"]["name"], "llm");
        let causes = denied.causes();
        let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, ["spec.parallelism", "spec.router.route.group"], "{:#}", denied.body);
    }
}

#[test]
fn kubectl_prints_why_something_is_denied_and_what_it_is_warned_about() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let spec = json!({"model": {"uri": "hf://org/model"}, "router": {"route": {"weight": 1}}});
    let file = cluster.file("denied.json", &service("v1alpha2", &spec));
    let denied = cluster.kubectl(&["apply", "-f", &file]);
    assert_eq!(denied.status.code(), Some(1));
    assert!(denied.stderr.contains("spec.router.route.group"), "{}", denied.stderr);

    let spec = json!({"model": {"uri": "oci://org/model:1", "confidential": {"enabled": true}}});
    let file = cluster.file("warned.json", &service("v1alpha2", &spec));
    let warned = cluster.kubectl(&["apply", "-f", &file, "--dry-run=server"]);
    assert!(warned.status.success(), "{warned:#?}");
    assert!(warned.stderr.starts_with("Warning: "), "{warned:#?}");
}

#[test]
fn templates_of_configs_are_tried() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    for version in ["v1alpha1", "v1alpha2"] {
        let template = |text: &str| json!({"template": {"containers": [{"name": "main", "env": [{"name": "A", "value": text}]}]}});
        dry(&cluster, &config(version, &template("{{ .ObjectMeta.Name }}"))).ok();
        let denied = dry(&cluster, &config(version, &template("{{ .Spec.Nope }}")));
        assert_eq!(denied.status, 403, "{:#}", denied.body);
        assert!(denied.message().contains("can't evaluate field Nope"), "{:#}", denied.body);
    }
}

#[test]
fn presets_of_the_platform_cannot_be_deleted_in_either_version() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    for version in ["v1alpha1", "v1alpha2"] {
        let preset = "kserve/llminferenceserviceconfigs/kserve-config-llm-template";
        let denied =
            cluster.server.api.delete(&format!("/apis/serving.kserve.io/{version}/namespaces/{preset}"));
        assert_eq!(denied.status, 403, "{:#}", denied.body);
        assert!(denied.message().contains("cannot be deleted"), "{:#}", denied.body);
    }
}
