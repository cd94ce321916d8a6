//! For each kind of change, exactly the services that it enqueues.

mod objects;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{self, ConfigMap, Pod, Secret, Service, ServiceAccount},
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::api::{DeleteParams, Patch, PatchParams};
use longboat_api::{
    annotations::KV_CACHE_SHM_PERCENT,
    foreign::{gateway::Gateway, httproute::HTTPRoute, inferencepool::InferencePool, inferencepool_x},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use longboat_apiserver::admission::{Admission, AdmissionAnswer, AdmissionRequest};
use longboat_compose::{PresetNames, presets};
use longboat_key::{Key, Name, Namespace, Uid};
use longboat_testkit::TestCluster;
use serde_json::{Value, json};

use objects::{services, surroundings};

use super::{
    kinds::{Rules, WatchedKind},
    list,
};

use crate::{
    announce::announce, args::Args, caches::Change, capabilities, config, context::Context,
    error::ReconcileError, events, metrics::Metrics, queue::ReconcileOutcome,
    secret_contents::SecretMetadata, service,
};

/// No webhook runs: reconciles fill in what is missing themselves.
struct NoWebhook;

impl Admission for NoWebhook {
    fn handles(&self, _group: &str, _resource: &str) -> bool {
        false
    }

    fn mutate(&self, _request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async { AdmissionAnswer::default() }.boxed()
    }

    fn validate(&self, _request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async { AdmissionAnswer::default() }.boxed()
    }
}

struct WatchFixture {
    world: TestCluster,
    context: Context,
}

// === impl WatchFixture ===

impl WatchFixture {
    /// A scene in which the controller has reconciled all services as far as possible, so that it knows their dependencies.
    async fn settled() -> Self {
        let world = TestCluster::new(Arc::new(NoWebhook)).await;
        for preset in presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap() {
            world.apply(serde_json::to_value(preset).unwrap()).await;
        }
        world.namespace("ns").await;
        for object in surroundings().into_iter().chain(services()) {
            world.apply(object).await;
        }
        // Events are not read, so the receiving end is dropped.
        let (sink, _) = events::channel();
        let context = Context::new(world.client(), Args::default(), sink, Metrics::new());
        let scene = Self { world, context };
        scene.settle().await;
        scene
    }

    /// Reconciles every service as far as possible. Afterwards none is enqueued.
    async fn settle(&self) {
        for _ in 0..6 {
            self.refresh().await;
            self.context.load_platform();
            for service in self.context.caches.inference_services.all() {
                let result = Box::pin(service::reconcile(&self.context, &Key::of(service.as_ref()))).await;
                assert!(matches!(result, Ok(()) | Err(ReconcileError::Conflict { .. })), "{result:?}");
            }
        }
        self.refresh().await;
        self.next_due().await;
    }

    /// Fills the caches with the current objects.
    async fn refresh(&self) {
        let context = &self.context;
        list::<LLMInferenceService>(context, None).await.unwrap();
        list::<LLMInferenceServiceConfig>(context, None).await.unwrap();
        list::<ConfigMap>(context, None).await.unwrap();
        list::<Secret>(context, None).await.unwrap();
        list::<SecretMetadata>(context, None).await.unwrap();
        list::<ServiceAccount>(context, None).await.unwrap();
        list::<Service>(context, None).await.unwrap();
        list::<Deployment>(context, None).await.unwrap();
        list::<HorizontalPodAutoscaler>(context, None).await.unwrap();
        list::<Pod>(context, None).await.unwrap();
        list::<Role>(context, None).await.unwrap();
        list::<RoleBinding>(context, None).await.unwrap();
        list::<ClusterRoleBinding>(context, None).await.unwrap();
        capabilities::list_all(context).await.unwrap();
    }

    /// Takes the enqueued services out of the queue, and returns them.
    async fn next_due(&self) -> BTreeSet<String> {
        let mut woken = BTreeSet::new();
        while let Ok(key) = tokio::time::timeout(Duration::from_mins(1), self.context.services.next()).await {
            woken.insert(key.name.to_string());
            self.context.services.done(key, ReconcileOutcome::Settled, 0.0);
        }
        woken
    }

    /// Changes an object, `namespace/name`, and passes the change to the controller.
    async fn change<K: WatchedKind>(&self, key: &str, patch: Value) -> BTreeSet<String> {
        let (namespace, name) = key.split_once('/').unwrap();
        let api = K::api(&self.context.client, Some(Namespace(namespace)));
        let patched = if patch["status"].is_null() {
            api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
        } else {
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await
        };
        let object = patched.unwrap();
        let change = K::cache(&self.context.caches).set(&object).expect("a change");
        self.apply_change(&change).await
    }

    /// Deletes an object, `namespace/name`, and passes the deletion to the controller.
    async fn delete<K: WatchedKind>(&self, key: &str) -> BTreeSet<String> {
        let (namespace, name) = key.split_once('/').unwrap();
        let api = K::api(&self.context.client, Some(Namespace(namespace)));
        let object = api.get(name).await.unwrap();
        api.delete(name, &DeleteParams::default()).await.unwrap();
        let change = K::cache(&self.context.caches).remove(object.metadata()).expect("a change");
        self.apply_change(&change).await
    }

    /// Adds a service, and passes it to the controller.
    async fn add(&self, service: Value) -> BTreeSet<String> {
        let name = service["metadata"]["name"].as_str().unwrap().to_owned();
        self.world.apply(service).await;
        let added =
            LLMInferenceService::api(&self.context.client, Some(Namespace("ns"))).get(&name).await.unwrap();
        let change = self.context.caches.inference_services.set(&added).expect("a change");
        self.apply_change(&change).await
    }

    async fn apply_change<K: WatchedKind>(&self, change: &Change<'_, K>) -> BTreeSet<String> {
        announce(&self.context, change);
        self.next_due().await
    }
}

fn only(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn annotated(value: &str) -> Value {
    json!({"metadata": {"annotations": {"example.com/touched": value}}})
}

const ALL: [&str; 7] = ["blue", "external", "full", "green", "plain", "referring", "scaled"];

#[tokio::test(start_paused = true)]
async fn what_services_refer_to_wakes_those_that_refer_to_it() {
    let scene = Box::pin(WatchFixture::settled()).await;
    let data = json!({"stringData": {"HF_TOKEN": "b"}});
    assert_eq!(scene.change::<SecretMetadata>("ns/keys", data.clone()).await, only(&["full"]));
    assert_eq!(scene.change::<SecretMetadata>("ns/nobodys", data).await, only(&[]));
    assert_eq!(scene.change::<ServiceAccount>("ns/reader", annotated("a")).await, only(&["full"]));
    // Every pod without its own account uses this account and its Secrets for the hub.
    let without_own: Vec<&str> = ALL.into_iter().filter(|name| *name != "full").collect();
    assert_eq!(scene.change::<ServiceAccount>("ns/default", annotated("a")).await, only(&without_own));

    let picker = json!({"data": {"config": "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: []\n"}});
    assert_eq!(scene.change::<ConfigMap>("ns/picker", picker.clone()).await, only(&["full"]));
    assert_eq!(scene.change::<ConfigMap>("ns/nobodys", picker).await, only(&[]));
    let replicas = json!({"spec": {"replicas": 2}});
    assert_eq!(scene.change::<LLMInferenceServiceConfig>("ns/base", replicas.clone()).await, only(&["full"]));
    assert_eq!(scene.change::<LLMInferenceServiceConfig>("ns/nobodys", replicas).await, only(&[]));
    // Layers have the annotations for the controller, too.
    let percent = json!({"metadata": {"annotations": {KV_CACHE_SHM_PERCENT: "150"}}});
    assert_eq!(scene.change::<LLMInferenceServiceConfig>("ns/base", percent).await, only(&["full"]));
    assert_eq!(scene.change::<LLMInferenceServiceConfig>("ns/base", annotated("a")).await, only(&[]));
    let routed = ["blue", "external", "full", "green"];
    let hostnames =
        json!({"spec": {"router": {"route": {"http": {"spec": {"hostnames": ["a.example.com"]}}}}}});
    let preset =
        scene.change::<LLMInferenceServiceConfig>("kserve/kserve-config-llm-router-route", hostnames);
    assert_eq!(preset.await, only(&routed));

    let accepted = json!({"status": {"conditions": [{
        "type": "Accepted", "status": "True", "reason": "Accepted", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let referring = only(&["external", "referring"]);
    assert_eq!(scene.change::<Gateway>("ns/own", accepted.clone()).await, referring);
    assert_eq!(scene.change::<Gateway>("ns/nobodys", accepted.clone()).await, only(&[]));
    let default = scene.change::<Gateway>("kserve/kserve-ingress-gateway", accepted).await;
    assert!(
        default.is_superset(&only(&["blue", "full", "green"])) && !default.contains("plain"),
        "{default:?}"
    );
    assert_eq!(scene.change::<HTTPRoute>("ns/own", annotated("a")).await, only(&["referring"]));
    assert_eq!(scene.change::<HTTPRoute>("ns/nobodys", annotated("a")).await, only(&[]));
    assert_eq!(scene.change::<InferencePool>("ns/own", annotated("a")).await, only(&["external"]));
    assert_eq!(scene.change::<InferencePool>("ns/nobodys", annotated("a")).await, only(&[]));

    // Missing objects are dependencies too: when they appear, their services are enqueued.
    assert_eq!(scene.delete::<InferencePool>("ns/own").await, only(&["external"]));
    assert_eq!(scene.delete::<HTTPRoute>("ns/own").await, only(&["referring"]));
    assert_eq!(scene.delete::<Gateway>("ns/own").await, referring);
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_a_service_wakes_that_service() {
    let scene = Box::pin(WatchFixture::settled()).await;
    let available = json!({"status": {"replicas": 1}});
    let full = only(&["full"]);
    assert_eq!(scene.change::<Deployment>("ns/full-kserve", available.clone()).await, full);
    assert_eq!(scene.change::<Deployment>("ns/plain-kserve", available).await, only(&["plain"]));
    assert_eq!(scene.change::<Service>("ns/full-kserve-workload-svc", annotated("a")).await, full);
    assert_eq!(scene.change::<Secret>("ns/full-kserve-self-signed-certs", annotated("a")).await, full);
    assert_eq!(scene.change::<ServiceAccount>("ns/full-epp-sa", annotated("a")).await, full);
    assert_eq!(scene.change::<Role>("ns/full-epp-role", annotated("a")).await, full);
    assert_eq!(scene.change::<RoleBinding>("ns/full-epp-rb", annotated("a")).await, full);
    assert_eq!(scene.change::<ClusterRoleBinding>("/ns-full-epp-auth-rb", annotated("a")).await, full);
    assert_eq!(scene.change::<HTTPRoute>("ns/full-kserve-route", annotated("a")).await, full);
    assert_eq!(scene.change::<InferencePool>("ns/full-inference-pool", annotated("a")).await, full);
    let older = scene.change::<inferencepool_x::InferencePool>("ns/full-inference-pool", annotated("a"));
    assert_eq!(older.await, full);
    let bounds = json!({"spec": {"maxReplicas": 9}});
    let autoscaler = scene.change::<HorizontalPodAutoscaler>("ns/scaled-kserve-hpa", bounds);
    assert_eq!(autoscaler.await, only(&["scaled"]));
    let disowned = json!({"metadata": {"ownerReferences": null}});
    let autoscaler = scene.change::<HorizontalPodAutoscaler>("ns/scaled-kserve-hpa", disowned);
    assert_eq!(autoscaler.await, only(&["scaled"]));

    // The addresses of pods are in certificates. The rest of their status does not matter.
    let address = json!({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}});
    assert_eq!(scene.change::<Pod>("ns/full-pod", address.clone()).await, full);
    assert_eq!(scene.change::<Pod>("ns/full-pod", json!({"status": {"phase": "Running"}})).await, only(&[]));
    assert!(
        !scene.change::<Pod>("ns/nobodys-pod", address).await.iter().any(|name| ALL.contains(&name.as_str()))
    );

    assert_eq!(scene.delete::<Secret>("ns/full-kserve-self-signed-certs").await, full);
    assert_eq!(scene.delete::<Deployment>("ns/plain-kserve").await, only(&["plain"]));
}

#[tokio::test(start_paused = true)]
async fn a_service_wakes_itself_and_the_members_of_its_group_and_settings_wake_all() {
    let scene = Box::pin(WatchFixture::settled()).await;
    let group = only(&["blue", "green"]);
    let weight = json!({"spec": {"router": {"route": {"weight": 5}}}});
    assert_eq!(scene.change::<LLMInferenceService>("ns/blue", weight).await, group);
    let replicas = json!({"spec": {"replicas": 2}});
    assert_eq!(scene.change::<LLMInferenceService>("ns/plain", replicas).await, only(&["plain"]));
    // A service that leaves a group enqueues the other members once, and later changes of it do not.
    let leave = json!({"spec": {"router": {"route": {"group": null, "weight": null}}}});
    assert_eq!(scene.change::<LLMInferenceService>("ns/blue", leave).await, group);
    let annotated_green = scene.change::<LLMInferenceService>("ns/green", annotated("a")).await;
    assert!(annotated_green.is_subset(&group) && annotated_green.contains("green"), "{annotated_green:?}");

    let settings = json!({"data": {"ingress": json!({
        "kserveIngressGateway": "kserve/another", "ingressGateway": "kserve/x",
    }).to_string()}});
    assert_eq!(scene.change::<ConfigMap>("kserve/inferenceservice-config", settings).await, only(&ALL));
    // A change that leaves all settings equal enqueues nothing.
    let touched = scene.change::<ConfigMap>("kserve/inferenceservice-config", annotated("a"));
    assert_eq!(touched.await, only(&[]));
    drop(scene.world);
}

/// The watch will not report the change, because the cache knows it from the response.
#[tokio::test(start_paused = true)]
async fn an_edit_that_comes_with_the_answer_to_a_status_is_heard() {
    let scene = Box::pin(WatchFixture::settled()).await;
    let (context, params) = (&scene.context, PatchParams::default());
    let replicas = Patch::Merge(json!({"spec": {"replicas": 2}}));

    let services = LLMInferenceService::api(&context.client, Some(Namespace("ns")));
    services.patch("plain", &params, &replicas).await.unwrap();
    let ready = json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
    assert_eq!(scene.change::<Deployment>("ns/plain-kserve", ready).await, only(&["plain"]));
    Box::pin(service::reconcile(context, &Key::new(Namespace("ns"), Name("plain")))).await.unwrap();
    assert_eq!(scene.next_due().await, only(&["plain"]));

    let configs = LLMInferenceServiceConfig::api(&context.client, Some(Namespace("ns")));
    config::reconcile(context, &Key::new(Namespace("ns"), Name("nobodys"))).await.unwrap();
    configs.patch("nobodys", &params, &replicas).await.unwrap();
    let user = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "user", "namespace": "ns"},
        "spec": {"model": {"uri": "hf://org/model", "name": "user"}, "baseRefs": [{"name": "nobodys"}]},
    });
    assert_eq!(scene.add(user).await, only(&["user"]));
    Box::pin(service::reconcile(context, &Key::new(Namespace("ns"), Name("user")))).await.unwrap();
    scene.next_due().await;
    config::reconcile(context, &Key::new(Namespace("ns"), Name("nobodys"))).await.unwrap();
    assert_eq!(scene.next_due().await, only(&["user"]));
}

/// If a whole namespace shares one model name, another service with that name must not enqueue all of them.
#[tokio::test(start_paused = true)]
async fn of_those_with_the_name_of_its_model_a_service_hears_of_one() {
    let scene = Box::pin(WatchFixture::settled()).await;
    let namesake = |name: &str| {
        json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"model": {"uri": "hf://org/model", "name": "full"}, "router": {"route": {}}},
        })
    };
    assert_eq!(scene.add(namesake("second")).await, only(&["full", "second"]));
    scene.settle().await;
    assert_eq!(scene.add(namesake("third")).await, only(&["third"]));
}

#[test]
fn of_what_is_cached_only_what_is_looked_at_is_kept() {
    let status = json!({
        "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "phase": "Running",
        "containerStatuses": [{"name": "main", "image": "a", "imageID": "", "ready": true, "restartCount": 0}],
    });
    let mut pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"containers": [{"name": "main"}]}, "status": status,
    }))
    .unwrap();
    assert!(pod.slim());
    let kept = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
    });
    assert_eq!(serde_json::to_value(pod).unwrap(), kept);
    for (type_, kept) in
        [("Opaque", true), ("kubernetes.io/tls", true), ("kubernetes.io/dockerconfigjson", false)]
    {
        let mut secret: Secret =
            serde_json::from_value(json!({"type": type_, "data": {"a": "YQ=="}})).unwrap();
        assert_eq!(secret.slim(), !kept, "{type_}");
        assert_eq!(secret.data.is_some(), kept, "{type_}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_in_a_namespace_that_is_being_deleted_and_services_leave_it_at_once() {
    let scene = Box::pin(WatchFixture::settled()).await;
    let context = &scene.context;
    let reconcile = |name: &'static str| {
        let key = Key::new(Namespace("ns"), Name(name));
        async move { Box::pin(service::reconcile(context, &key)).await.unwrap() }
    };
    let is_there = async |name: &str| {
        Deployment::api(&context.client, Some(Namespace("ns"))).get_opt(name).await.unwrap().is_some()
    };
    let ends = |ends: bool| {
        let mut namespace = v1::Namespace::default();
        namespace.metadata.name = Some("ns".into());
        namespace.metadata.resource_version = Some(if ends { "1000000" } else { "1000001" }.into());
        namespace.metadata.deletion_timestamp = ends.then_some(Time(Timestamp::UNIX_EPOCH));
        announce(context, &context.caches.namespaces.set(&namespace).expect("a change"));
    };
    assert_eq!(scene.delete::<Deployment>("ns/plain-kserve").await, only(&["plain"]));
    // `blue` waits for `green` to stop sending traffic to it.
    let backend = json!({"group": "", "kind": "Service", "name": "blue-kserve-workload-svc", "port": 8000});
    let sends = json!({"spec": {"rules": [{"backendRefs": [backend]}]}});
    scene.change::<HTTPRoute>("ns/green-kserve-route", sends).await;
    let services = LLMInferenceService::api(&context.client, Some(Namespace("ns")));
    services.delete("blue", &DeleteParams::default()).await.unwrap();
    scene.refresh().await;
    reconcile("blue").await;
    assert!(services.get_opt("blue").await.unwrap().is_some());

    ends(true);
    reconcile("plain").await;
    assert!(!is_there("plain-kserve").await, "an API server would refuse it");
    reconcile("blue").await;
    assert!(services.get_opt("blue").await.unwrap().is_none());

    ends(false);
    reconcile("plain").await;
    assert!(is_there("plain-kserve").await);
}

#[tokio::test]
async fn no_event_is_written_into_a_namespace_that_is_being_deleted() {
    let world = TestCluster::empty().await;
    let (sink, notes) = events::channel();
    let context = Context::new(world.client(), Args::default(), sink, Metrics::new());
    for name in ["staying", "leaving"] {
        world.namespace(name).await;
        let subject = events::Subject {
            key: Key::new(Namespace(name), Name("llm")),
            uid: Uid(name.into()),
            kind: "LLMInferenceService",
            source: "test",
        };
        context.events.normal(&subject, "Created", "Created something".into());
    }
    let mut leaving = v1::Namespace::default();
    leaving.metadata.name = Some("leaving".into());
    leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    announce(&context, &context.caches.namespaces.set(&leaving).expect("a change"));
    drop(context);
    events::write_all(world.client(), notes).await;
    assert_eq!(world.names::<v1::Event>("leaving").await.len(), 0);
    assert_eq!(world.names::<v1::Event>("staying").await.len(), 1);
}
