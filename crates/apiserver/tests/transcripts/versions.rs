//! Tests of a kind with two versions and in-process conversion: LLMInferenceServices, with a part of their schema.

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams, WatchEvent, WatchParams,
    },
};
use longboat_api::conversion;
use longboat_apiserver::{ApiServer, Options};
use serde_json::{Value, json};

const GROUP: &str = "serving.kserve.io";
const KEPT: &str = conversion::KEPT_PREFIX;

fn schema(older: bool) -> Value {
    let text = || json!({"type": "string"});
    let number = || json!({"type": "integer"});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let any = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let labels = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let mut model = json!({"uri": text(), "lora": object(json!({"adapters": {"x-kubernetes-preserve-unknown-fields": true}}))});
    let mut spec = json!({"replicas": number(), "template": any()});
    let mut status = json!({"url": text(), "annotations": labels()});
    let pool = if older {
        model["criticality"] = text();
        json!({
            "selector": labels(), "targetPortNumber": number(),
            "extensionRef": object(json!({"name": text(), "kind": text(), "failureMode": text(), "portNumber": number()})),
        })
    } else {
        model["confidential"] = any();
        spec["kvCacheOffloading"] =
            object(json!({"cpu": text(), "evictionPolicy": {"type": "string", "default": "lru"}}));
        status["workloads"] = any();
        json!({
            "selector": object(json!({"matchLabels": labels()})), "appProtocol": {"type": "string", "default": "http"},
            "targetPorts": {"type": "array", "x-kubernetes-list-type": "atomic", "items": object(json!({"number": number()}))},
            "endpointPickerRef": object(json!({
                "name": text(), "kind": {"type": "string", "default": "Service"}, "failureMode": text(),
                "port": object(json!({"number": number()})),
            })),
        })
    };
    spec["model"] = object(model);
    let scheduler = object(json!({"pool": object(json!({"spec": object(pool)}))}));
    spec["router"] = object(json!({ "scheduler": scheduler }));
    json!({"openAPIV3Schema": object(json!({"spec": object(spec), "status": object(status)}))})
}

fn definition() -> Value {
    let version = |name: &str, older: bool| {
        json!({
            "name": name, "served": true, "storage": !older, "schema": schema(older), "subresources": {"status": {}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "llminferenceservices.serving.kserve.io"},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "llminferenceservices", "kind": "LLMInferenceService"},
            // Nothing listens at this address: an in-process conversion never calls the webhook.
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"},
            }},
            "versions": [version("v1alpha1", true), version("v1alpha2", false)],
        },
    })
}

struct Kind {
    older: Api<DynamicObject>,
    newer: Api<DynamicObject>,
}

async fn kind() -> Kind {
    let server = ApiServer::new(Options::default()).unwrap();
    server.convert_with(GROUP, |object, version| {
        conversion::convert_to(object, version).map_err(|error| error.to_string())
    });
    let client = server.client("default");
    let definitions =
        resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &definitions);
    definitions.create(&PostParams::default(), &serde_json::from_value(definition()).unwrap()).await.unwrap();
    let of = |version: &str, client: Client| {
        let resource = resource(GROUP, version, "LLMInferenceService", "llminferenceservices");
        Api::default_namespaced_with(client, &resource)
    };
    Kind { older: of("v1alpha1", client.clone()), newer: of("v1alpha2", client) }
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn service(version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": "LLMInferenceService",
        "metadata": {"name": "llm"}, "spec": spec,
    })
}

async fn create(api: &Api<DynamicObject>, object: Value) -> DynamicObject {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

/// Applies a spec as `manager`. Returns the object, or the error.
async fn apply(
    api: &Api<DynamicObject>,
    version: &str,
    manager: &str,
    spec: Value,
) -> Result<DynamicObject, String> {
    let patch = service(version, &spec);
    let applied = api.patch("llm", &PatchParams::apply(manager), &Patch::Apply(&patch)).await;
    applied.map_err(|error| error.to_string())
}

fn rich() -> Value {
    json!({
        "kvCacheOffloading": {"cpu": "1Gi", "evictionPolicy": "lru"},
        "model": {"uri": "hf://a/b", "confidential": {"enabled": true}},
        "router": {"scheduler": {"pool": {"spec": {
            "selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 1}, {"number": 2}],
            "appProtocol": "kubernetes.io/h2c",
            "endpointPickerRef": {"name": "e", "kind": "Service", "failureMode": "FailOpen", "port": {"number": 5}},
        }}}},
    })
}

#[tokio::test]
async fn what_is_written_in_the_older_version_is_stored_in_the_newer() {
    let Kind { older, newer } = kind().await;
    let spec = json!({
        "model": {"uri": "hf://a/b", "criticality": "Critical"},
        "router": {"scheduler": {"pool": {"spec": {
            "selector": {"a": "b"}, "targetPortNumber": 8080, "extensionRef": {"name": "e"},
        }}}},
    });
    let before = older.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let created = create(&older, service("v1alpha1", &spec)).await;
    assert_eq!(created.types.unwrap().api_version, "serving.kserve.io/v1alpha1");
    let stored = newer.get("llm").await.unwrap();
    assert_eq!(stored.metadata.annotations.unwrap()[conversion::MODEL_CRITICALITY], "Critical");
    assert_eq!(
        stored.data["spec"],
        json!({
            "model": {"uri": "hf://a/b"},
            "router": {"scheduler": {"pool": {"spec": {
                "selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 8080}], "appProtocol": "http",
                "endpointPickerRef": {"name": "e", "kind": "Service", "failureMode": "FailClose", "port": {"number": 9002}},
            }}}},
        })
    );
    let listed = older.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items[0].data["spec"]["model"], spec["model"]);
    let mut events = older.watch(&WatchParams::default(), &before).await.unwrap().boxed();
    let Some(WatchEvent::Added(seen)) = events.try_next().await.unwrap() else { panic!("nothing was seen") };
    assert_eq!(seen.types.unwrap().api_version, "serving.kserve.io/v1alpha1");
    older.delete("llm", &DeleteParams::default()).await.unwrap();
    assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Deleted(_))));
}

#[tokio::test]
async fn writes_through_the_older_version_keep_what_it_cannot_express() {
    let Kind { older, newer } = kind().await;
    create(&newer, service("v1alpha2", &rich())).await;
    let merge = json!({"spec": {"replicas": 2}});
    older.patch("llm", &PatchParams::default(), &Patch::Merge(&merge)).await.unwrap();
    let merge = json!({"spec": {"replicas": 3}});
    older.patch("llm", &PatchParams::default(), &Patch::Merge(&merge)).await.unwrap();
    let mut read = older.get("llm").await.unwrap();
    assert!(read.metadata.annotations.as_ref().unwrap().keys().all(|key| key.starts_with(KEPT)));
    read.data["spec"]["replicas"] = 4.into();
    older.replace("llm", &PostParams::default(), &read).await.unwrap();
    let mut wanted = rich();
    wanted["replicas"] = 4.into();
    let stored = newer.get("llm").await.unwrap();
    assert_eq!(stored.data["spec"], wanted);
    assert_eq!(stored.metadata.annotations, None);
    // Writing an object back as it was read changes nothing.
    let again = older.get("llm").await.unwrap();
    let replaced = older.replace("llm", &PostParams::default(), &again).await.unwrap();
    assert_eq!(replaced.metadata.resource_version, stored.metadata.resource_version);
    assert_eq!(replaced.metadata.generation, Some(4));
}

#[tokio::test]
async fn a_manifest_that_replaces_the_object_leaves_what_was_observed() {
    let Kind { older, newer } = kind().await;
    create(&newer, service("v1alpha2", &rich())).await;
    let status =
        json!({"status": {"url": "http://a", "workloads": {"primary": {"kind": "Deployment", "name": "d"}}}});
    newer.patch_status("llm", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let mut manifest = service("v1alpha1", &json!({"model": {"uri": "hf://a/b"}}));
    manifest["metadata"]["resourceVersion"] =
        newer.get("llm").await.unwrap().metadata.resource_version.into();
    older.replace("llm", &PostParams::default(), &serde_json::from_value(manifest).unwrap()).await.unwrap();
    let stored = newer.get("llm").await.unwrap();
    assert_eq!(stored.data["spec"], json!({"model": {"uri": "hf://a/b"}}));
    assert_eq!(stored.data["status"], status["status"]);
    // A status write through the older version keeps the other fields, too.
    let written = json!({"status": {"url": "http://b"}});
    older.patch_status("llm", &PatchParams::default(), &Patch::Merge(&written)).await.unwrap();
    let stored = newer.get("llm").await.unwrap();
    assert_eq!(stored.data["status"]["url"], "http://b");
    assert_eq!(stored.data["status"]["workloads"], status["status"]["workloads"]);
}

#[tokio::test]
async fn two_managers_apply_in_two_versions() {
    let Kind { older, newer } = kind().await;
    apply(&newer, "v1alpha2", "platform", rich()).await.unwrap();
    // Each manager applies again after the other. Neither takes ownership from the other.
    for replicas in [1, 1, 2] {
        let applied = apply(&older, "v1alpha1", "team", json!({"replicas": replicas})).await.unwrap();
        assert_eq!(applied.data["spec"]["replicas"], replicas);
        let applied = apply(&newer, "v1alpha2", "platform", rich()).await.unwrap();
        let mut wanted = rich();
        wanted["replicas"] = replicas.into();
        assert_eq!(applied.data["spec"], wanted);
    }
    let owners = |object: &DynamicObject| {
        let mut owners: Vec<_> = object
            .metadata
            .managed_fields
            .iter()
            .flatten()
            .map(|entry| (entry.manager.clone().unwrap(), serde_json::to_string(&entry.fields_v1).unwrap()))
            .collect();
        owners.sort();
        owners
    };
    let seen = older.get("llm").await.unwrap();
    assert_eq!(owners(&seen)[1], ("team".to_owned(), r#"{"f:spec":{"f:replicas":{}}}"#.to_owned()));
    assert!(!owners(&seen)[0].1.contains(KEPT), "{:?}", owners(&seen));

    // A field that a manager no longer applies is removed, even if the other version does not have it.
    let mut less = rich();
    less.as_object_mut().unwrap().remove("kvCacheOffloading");
    apply(&newer, "v1alpha2", "platform", less.clone()).await.unwrap();
    apply(&older, "v1alpha1", "team", json!({"replicas": 2})).await.unwrap();
    less["replicas"] = 2.into();
    assert_eq!(newer.get("llm").await.unwrap().data["spec"], less);
    apply(&older, "v1alpha1", "team", json!({})).await.unwrap();
    less.as_object_mut().unwrap().remove("replicas");
    assert_eq!(newer.get("llm").await.unwrap().data["spec"], less);
}

#[tokio::test]
async fn fields_with_two_shapes_have_one_owner() {
    let Kind { older, newer } = kind().await;
    apply(&newer, "v1alpha2", "platform", rich()).await.unwrap();
    let pool = |port: u16| json!({"router": {"scheduler": {"pool": {"spec": {"targetPortNumber": port}}}}});
    let refused = apply(&older, "v1alpha1", "team", pool(9)).await.unwrap_err();
    assert!(
        refused.contains("conflict with \"platform\": .spec.router.scheduler.pool.spec.targetPorts"),
        "{refused}"
    );
    assert_eq!(newer.get("llm").await.unwrap().data["spec"], rich());
    // Applying the same value is not a conflict. Giving it up leaves the value to its other owner.
    apply(&older, "v1alpha1", "team", pool(1)).await.unwrap();
    assert_eq!(newer.get("llm").await.unwrap().data["spec"], rich());
    apply(&older, "v1alpha1", "team", json!({})).await.unwrap();
    assert_eq!(newer.get("llm").await.unwrap().data["spec"], rich());
}

#[tokio::test]
async fn a_field_of_the_older_version_alone_is_owned_and_given_up_there() {
    let Kind { older, newer } = kind().await;
    let with = json!({"model": {"uri": "hf://a/b", "criticality": "Critical"}});
    apply(&older, "v1alpha1", "team", with.clone()).await.unwrap();
    apply(&newer, "v1alpha2", "platform", json!({"replicas": 2})).await.unwrap();
    apply(&older, "v1alpha1", "team", with).await.unwrap();
    let annotations = newer.get("llm").await.unwrap().metadata.annotations.unwrap();
    assert_eq!(annotations[conversion::MODEL_CRITICALITY], "Critical");
    apply(&older, "v1alpha1", "team", json!({"model": {"uri": "hf://a/b"}})).await.unwrap();
    let stored = newer.get("llm").await.unwrap();
    assert_eq!(stored.metadata.annotations, None);
    assert_eq!(stored.data["spec"], json!({"model": {"uri": "hf://a/b"}, "replicas": 2}));
}
