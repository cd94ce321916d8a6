//! The webhooks from the view of users of an API server.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{ObjectMeta, Status},
};
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use longboat_controller::webhook::Settings;
use longboat_testkit::{Faults, faulty};
use serde_json::{Value, json};

use super::{Replica, client, convert_by, install, review, stanza, trusted, world};
use crate::setup::service;

fn refusal(error: kube::Error) -> Status {
    match error {
        kube::Error::Api(status) => *status,
        other => panic!("not refused by the server: {other}"),
    }
}

#[tokio::test]
async fn a_service_gets_its_defaults_over_https() {
    let world = world().await;
    let _replica = Replica::called(&world).await;
    world.apply(service("llm", json!({}))).await;
    let api: Api<LLMInferenceService> = Api::namespaced(world.client(), "ns");
    assert_eq!(api.get("llm").await.unwrap().spec.model.name.as_deref(), Some("llm"));
}

#[tokio::test]
async fn who_lets_go_of_an_object_needs_no_answer() {
    let world = world().await;
    let replica = Replica::called(&world).await;
    world.apply(service("llm", json!({}))).await;
    replica.stop().await;
    let api: Api<LLMInferenceService> = Api::namespaced(world.client(), "ns");
    let patch = async |metadata: Value| {
        api.patch("llm", &PatchParams::default(), &Patch::Merge(json!({"metadata": metadata}))).await
    };
    patch(json!({"finalizers": ["example.com/a", "example.com/b"]})).await.unwrap();
    for asked in [
        patch(json!({"labels": {"a": "b"}})).await,
        patch(json!({"annotations": {"a": "b"}})).await,
        api.patch("llm", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 2}}))).await,
    ] {
        let status = refusal(asked.unwrap_err());
        assert!(status.message.contains("failed calling webhook"), "{}", status.message);
    }
    api.delete("llm", &DeleteParams::default()).await.unwrap();
    patch(json!({"labels": {"a": "b"}, "finalizers": ["example.com/a"]})).await.unwrap();
    patch(json!({"finalizers": null})).await.unwrap();
    assert!(api.get_opt("llm").await.unwrap().is_none());
}

#[tokio::test]
async fn a_refused_service_names_every_field() {
    let world = world().await;
    let _replica = Replica::called(&world).await;
    let wrong = json!({
        "parallelism": {"pipeline": 2, "data": 2, "dataLocal": 1}, "router": {"scheduler": {"replicas": 0}},
    });
    let status = refusal(world.try_apply(service("llm", wrong)).await.unwrap_err());
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let prefix = "admission webhook \"llminferenceservice.kserve-webhook-server.v1alpha2.validator\" denied the request: ";
    assert!(status.message.starts_with(prefix), "{}", status.message);
    let fields: Vec<_> = status.details.unwrap().causes.into_iter().map(|cause| cause.field).collect();
    assert_eq!(fields, ["spec.parallelism", "spec.router.scheduler.replicas"]);
}

#[tokio::test]
async fn a_preset_of_the_platform_cannot_be_deleted() {
    let world = world().await;
    let _replica = Replica::called(&world).await;
    crate::setup::install_presets(&world).await;
    let api: Api<LLMInferenceServiceConfig> = Api::namespaced(world.client(), "kserve");
    let name = "kserve-config-llm-template";
    let status = refusal(api.delete(name, &DeleteParams::default()).await.unwrap_err());
    assert_eq!(status.code, 403);
    let expected = "well-known config kserve/kserve-config-llm-template cannot be deleted";
    assert!(status.message.ends_with(expected), "{}", status.message);
}

#[tokio::test]
async fn an_old_service_is_admitted_converted_and_comes_back_as_it_was() {
    let world = world().await;
    let replica = Replica::called(&world).await;
    let crd = "llminferenceservices.serving.kserve.io";
    convert_by(&world, &replica, crd).await;
    world
        .eventually("conversion trusts us", async || stanza(&world, crd).await["caBundle"].is_string())
        .await;
    let mut old = service("llm", json!({}));
    old["apiVersion"] = json!("serving.kserve.io/v1alpha1");
    old["spec"]["model"]["criticality"] = json!("Critical");
    let applied = world.apply(old.clone()).await;
    assert_eq!(applied.data["spec"]["model"]["criticality"], "Critical");
    assert_eq!(applied.data["spec"]["model"]["name"], "llm");
    let api: Api<LLMInferenceService> = Api::namespaced(world.client(), "ns");
    let stored = api.get("llm").await.unwrap();
    let annotations = stored.metadata.annotations.unwrap();
    assert_eq!(annotations["internal.serving.kserve.io/model-criticality"], "Critical");

    old["metadata"]["name"] = json!("wrong");
    old["spec"]["router"] = json!({"scheduler": {"replicas": 0}});
    let status = refusal(world.try_apply(old).await.unwrap_err());
    let prefix = "admission webhook \"llminferenceservice.kserve-webhook-server.v1alpha1.validator\" denied the request: ";
    assert!(status.message.starts_with(prefix), "{}", status.message);
}

const VALIDATE_CONFIG: &str = "/validate-serving-kserve-io-v1alpha2-llminferenceserviceconfig";

/// A review for the creation of a config.
fn config_review(header: &str) -> Value {
    let mut review = review(&json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": "config", "namespace": "ns"}, "spec": {"annotations": {"header": header}},
    }));
    review["request"]["resource"]["resource"] = json!("llminferenceserviceconfigs");
    review
}

#[tokio::test]
async fn settings_that_cannot_be_read_for_a_moment_are_read_again_before_an_answer_is_refused() {
    const SETTINGS: &str = "/api/v1/namespaces/kserve/configmaps/inferenceservice-config";
    let world = world().await;
    let faults = Faults::default();
    let replica = Replica::by(faulty(&world.server, &faults), Settings::default(), None).await;
    install(&world, &replica).await;
    replica.ready(&world).await;
    let client = client(&trusted(&world).await);
    let ask = async || {
        let request = client.post(replica.url(VALIDATE_CONFIG)).json(&config_review("none"));
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    faults.fail_reads(SETTINGS, 2);
    let (status, text) = ask().await;
    assert_eq!(status, 200, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["response"], json!({"uid": "7", "allowed": true}));

    faults.fail_reads(SETTINGS, u64::MAX);
    let message = "cannot read the objects that admission needs, such as the platform's settings: the server has a fault \
                   (attempts: 5); try again\n";
    assert_eq!(ask().await, (500, message.to_owned()));
    faults.fail_reads(SETTINGS, 0);
    assert_eq!(ask().await.0, 200);
    replica.stop().await;
}

#[tokio::test]
async fn a_config_is_checked_against_the_settings_of_this_moment() {
    let world = world().await;
    let replica = Replica::called(&world).await;
    let client = client(&trusted(&world).await);
    let check = async |header: &str| {
        let request = client.post(replica.url(VALIDATE_CONFIG)).json(&config_review(header));
        request.send().await.unwrap().json::<Value>().await.unwrap()["response"].take()
    };
    let right = "{{ .GlobalConfig.ModelBasedRoutingHeaderName }}";
    assert_eq!(check(right).await, json!({"uid": "7", "allowed": true}));
    let wrong = check("{{ .GlobalConfig.Nothing }}").await;
    assert_eq!((&wrong["allowed"], &wrong["status"]["code"]), (&json!(false), &json!(403)));

    // Deletes the settings and restores them: the next response must use the change.
    let settings: Api<ConfigMap> = Api::namespaced(world.client(), "kserve");
    let kept = settings.get("inferenceservice-config").await.unwrap();
    settings.delete("inferenceservice-config", &DeleteParams::default()).await.unwrap();
    let without = check(right).await;
    assert_eq!((&without["allowed"], without["warnings"].as_array().map(Vec::len)), (&json!(true), Some(1)));
    let metadata = ObjectMeta { name: kept.metadata.name, ..ObjectMeta::default() };
    settings.create(&PostParams::default(), &ConfigMap { metadata, ..kept }).await.unwrap();
    assert_eq!(check(right).await, json!({"uid": "7", "allowed": true}));
}

#[tokio::test]
async fn a_model_that_is_cached_on_nodes_marks_its_service() {
    let world = world().await;
    let _replica = Replica::called(&world).await;
    for (kind, plural, scope) in [
        ("LocalModelCache", "localmodelcaches", "Cluster"),
        ("LocalModelNamespaceCache", "localmodelnamespacecaches", "Namespaced"),
    ] {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.serving.kserve.io")},
            "spec": {
                "group": "serving.kserve.io", "scope": scope, "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        world.apply(crd).await;
    }
    let cache = |kind: &str, metadata: Value| {
        json!({
            "apiVersion": "serving.kserve.io/v1alpha1", "kind": kind, "metadata": metadata,
            "spec": {"sourceModelUri": "hf://facebook/opt-125m", "nodeGroups": ["gpu"]},
        })
    };
    let served = async |object: Value| world.try_apply(object).await.ok();
    world
        .eventually("the kind", async || served(cache("LocalModelCache", json!({"name": "shared"}))).await)
        .await;
    let settings: Api<ConfigMap> = Api::namespaced(world.client(), "kserve");
    let patch = json!({"data": {"localModel": "{\"enabled\": true}"}});
    settings.patch("inferenceservice-config", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let label = async |name: &str| {
        let labels = world.apply(service(name, json!({}))).await.metadata.labels.unwrap_or_default();
        labels.get("internal.serving.kserve.io/localmodel").cloned()
    };
    // The watch delivers the settings.
    let marked = world.eventually("the service is marked", async || label("llm").await).await;
    assert_eq!(marked, "shared");
    let own = cache("LocalModelNamespaceCache", json!({"name": "own", "namespace": "ns"}));
    world.eventually("the kind", async || served(own.clone()).await).await;
    assert_eq!(label("other").await.as_deref(), Some("own"));
}

#[tokio::test]
async fn when_nobody_answers_nothing_is_admitted() {
    let world = world().await;
    let replica = Replica::called(&world).await;
    replica.stop().await;
    let status = refusal(world.try_apply(service("llm", json!({}))).await.unwrap_err());
    assert_eq!(status.code, 500);
}
