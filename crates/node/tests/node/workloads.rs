//! Tests of Deployments, ReplicaSets, Services and namespaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::test_node::{TestNode, condition, http_get, uid};

fn deployment(name: &str, replicas: i32, answer: &str, strategy: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas, "strategy": strategy,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 5, "containers": [{
            "name": "main", "image": "longboat", "args": ["server"],
            "env": [{"name": "PORT", "value": "8000"}, {"name": "ANSWER", "value": answer}],
            "ports": [{"name": "http", "containerPort": 8000}],
            "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
            "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1}}]}}}})
}

fn answer_patch(answer: &str) -> Patch<Value> {
    Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "env": [{"name": "ANSWER", "value": answer}]}]}}}}))
}

fn is_complete(deployment: &Deployment) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    let wanted = deployment.spec.as_ref().unwrap().replicas;
    status.observed_generation == deployment.metadata.generation
        && status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_pod_is_told_in_the_words_of_the_api_server() {
    let world = TestNode::with_accounts().await;
    let spec = json!({"selector": {"matchLabels": {"app": "x"}}, "serviceName": "x", "template": {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"serviceAccountName": "nobody", "containers": [{"name": "main", "image": "longboat"}]},
    }});
    let named = |name: &str| json!({"metadata": {"name": name}, "spec": spec});
    let mut set = named("replicas");
    set["spec"].as_object_mut().unwrap().remove("serviceName");
    world.create::<ReplicaSet>(set).await;
    world.create::<StatefulSet>(named("stateful")).await;
    let why =
        "is forbidden: error looking up service account default/nobody: serviceaccount \"nobody\" not found";
    for (name, before) in [
        ("replicas", "FailedCreate: Error creating: pods \"replicas-"),
        ("stateful", "FailedCreate: create Pod stateful-0 failed: pods \"stateful-0\" "),
    ] {
        world.until_event(name, "FailedCreate").await;
        let events = world.events(name).await;
        let message = events.iter().find(|event| event.starts_with("FailedCreate")).unwrap();
        // The event ends with its count.
        let text = message.rsplit_once(" x").unwrap().0;
        assert!(text.starts_with(before) && text.ends_with(why), "{text}");
    }
    let failed = |set: &ReplicaSet| set.status.as_ref().is_some_and(|status| status.conditions.is_some());
    let set: ReplicaSet = world.until("replicas", "failed", failed).await;
    let conditions = set.status.unwrap().conditions.unwrap();
    assert!(conditions[0].message.as_deref().unwrap().ends_with(why), "{conditions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_update_never_loses_availability() {
    let world = TestNode::start().await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    world.create::<Deployment>(deployment("d", 2, "old", &strategy)).await;
    let service: Service = world
        .create(json!({"metadata": {"name": "d"}, "spec": {"selector": {"app": "d"}, "ports": [{"name": "web", "port": 8080, "targetPort": "http"}]}}))
        .await;
    let ip = service.spec.unwrap().cluster_ip.unwrap();
    let before: Deployment = world.until("d", "complete", is_complete).await;
    assert_eq!(before.annotations()["deployment.kubernetes.io/revision"], "1");
    let address = format!("{ip}:8080");
    while http_get(&address).await.as_deref() != Some("old") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    // At every moment of the rollout, clients of the cluster IP get a response, old or new.
    let stop = Arc::new(AtomicBool::new(false));
    let asking = tokio::spawn({
        let (stop, address) = (Arc::clone(&stop), address.clone());
        async move {
            let mut answers = (0, 0, 0);
            while !stop.load(Ordering::Relaxed) {
                match http_get(&address).await.as_deref() {
                    Some("old") => answers.0 += 1,
                    Some("new") => answers.1 += 1,
                    _ => answers.2 += 1,
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            answers
        }
    });
    let least = Arc::new(AtomicI32::new(i32::MAX));
    let watching = tokio::spawn({
        let (stop, least, api) = (Arc::clone(&stop), Arc::clone(&least), world.api::<Pod>());
        async move {
            while !stop.load(Ordering::Relaxed) {
                let pods = api.list(&ListParams::default()).await.unwrap();
                let ready = pods.iter().filter(|pod| {
                    condition(pod, "Ready") == "True" && pod.metadata.deletion_timestamp.is_none()
                });
                least.fetch_min(i32::try_from(ready.count()).unwrap(), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    world.api::<Deployment>().patch("d", &PatchParams::default(), &answer_patch("new")).await.unwrap();
    let after: Deployment = world
        .until("d", "rolled out", |d: &Deployment| {
            d.metadata.generation != before.metadata.generation && is_complete(d)
        })
        .await;
    stop.store(true, Ordering::Relaxed);
    watching.await.unwrap();
    let (old, new, failed) = asking.await.unwrap();
    assert_eq!(failed, 0, "{old} old and {new} new answers");
    assert!(least.load(Ordering::Relaxed) >= 2, "{least:?}");
    assert_eq!(after.annotations()["deployment.kubernetes.io/revision"], "2");
    let progress =
        after.status.unwrap().conditions.unwrap().into_iter().find(|one| one.type_ == "Progressing").unwrap();
    assert_eq!(progress.reason.as_deref(), Some("NewReplicaSetAvailable"));
    let sets = world.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap();
    assert_eq!(sets.items.len(), 2, "the old one is history");
    world.until_event("d", "ScalingReplicaSet: Scaled up replica set").await;

    // A rollback to the old template reuses its ReplicaSet.
    world.api::<Deployment>().patch("d", &PatchParams::default(), &answer_patch("old")).await.unwrap();
    world
        .until::<Deployment>("d", "rolled back", |d| {
            d.annotations()["deployment.kubernetes.io/revision"] == "3" && is_complete(d)
        })
        .await;
    assert_eq!(world.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items.len(), 2);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recreate_never_runs_two_templates_at_once() {
    let world = TestNode::start().await;
    world.create::<Deployment>(deployment("d", 1, "old", &json!({"type": "Recreate"}))).await;
    let before: Deployment = world.until("d", "complete", is_complete).await;
    world.api::<Deployment>().patch("d", &PatchParams::default(), &answer_patch("new")).await.unwrap();
    let most = tokio::spawn({
        let api = world.api::<Pod>();
        async move {
            let mut most = 0;
            for _ in 0..200 {
                most = most.max(api.list(&ListParams::default()).await.unwrap().items.len());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            most
        }
    });
    world
        .until::<Deployment>("d", "recreated", |d| {
            d.metadata.generation != before.metadata.generation && is_complete(d)
        })
        .await;
    assert_eq!(most.await.unwrap(), 1);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_world_is_not_written_to_also_after_a_restart() {
    let mut world = TestNode::start().await;
    world.create::<Deployment>(deployment("d", 2, "x", &Value::Null)).await;
    world.create::<Service>(json!({"metadata": {"name": "d"}, "spec": {"selector": {"app": "d"}, "ports": [{"port": 80, "targetPort": 8000}]}})).await;
    world.until::<Deployment>("d", "complete", is_complete).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let settled = world.server.revision();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(world.server.revision(), settled, "something is written all the time");

    let objects = async |world: &TestNode| {
        let mut uids = Vec::new();
        uids.extend(
            world
                .api::<ReplicaSet>()
                .list(&ListParams::default())
                .await
                .unwrap()
                .iter()
                .map(|o| (uid(o), o.metadata.generation)),
        );
        uids.extend(
            world.api::<Pod>().list(&ListParams::default()).await.unwrap().iter().map(|o| (uid(o), None)),
        );
        uids.extend(
            world
                .api::<EndpointSlice>()
                .list(&ListParams::default())
                .await
                .unwrap()
                .iter()
                .map(|o| (uid(o), None)),
        );
        uids
    };
    let before = objects(&world).await;
    world.stop_node(Duration::from_secs(1)).await;
    world.start_node(|_| {}).await;
    world.until::<Deployment>("d", "complete again", is_complete).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(objects(&world).await, before);
    let settled = world.server.revision();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.server.revision(), settled);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scaling_and_deleting_follow_the_deployment() {
    let world = TestNode::start().await;
    world.create::<Deployment>(deployment("d", 1, "x", &Value::Null)).await;
    world.until::<Deployment>("d", "complete", is_complete).await;
    for replicas in [3, 0, 2] {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        world.api::<Deployment>().patch("d", &PatchParams::default(), &patch).await.unwrap();
        world
            .until::<Deployment>("d", "scaled", |d| {
                let status = d.status.clone().unwrap_or_default();
                status.observed_generation == d.metadata.generation
                    && status.replicas.unwrap_or(0) == replicas
                    && status.available_replicas.unwrap_or(0) == replicas
            })
            .await;
    }
    assert_eq!(world.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items.len(), 1);
    world.api::<Deployment>().delete("d", &DeleteParams::background()).await.unwrap();
    let gone = async {
        while !world.api::<Pod>().list(&ListParams::default()).await.unwrap().items.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), gone).await.unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disruption_budget_lets_pods_be_evicted_one_after_the_other() {
    let world = TestNode::start().await;
    world.create::<Deployment>(deployment("d", 3, "x", &Value::Null)).await;
    world
        .create::<PodDisruptionBudget>(json!({"metadata": {"name": "b"}, "spec": {
            "minAvailable": "60%", "selector": {"matchLabels": {"app": "d"}}}}))
        .await;
    let is_allowed = |budget: &PodDisruptionBudget| {
        let status = budget.status.clone().unwrap_or_default();
        (status.expected_pods, status.desired_healthy, status.disruptions_allowed) == (3, 2, 1)
            && status.disrupted_pods.is_none()
    };
    let api = world.api::<Pod>();
    let mut evicted = Vec::new();
    for _ in 0..2 {
        world.until("b", "ready for an eviction", is_allowed).await;
        let active = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
        let mut pods = api.list(&ListParams::default()).await.unwrap().items;
        pods.retain(active);
        let [first, second] = [&pods[0], &pods[1]].map(ResourceExt::name_any);
        api.evict(&first, &EvictParams::default()).await.unwrap();
        let refused = api.evict(&second, &EvictParams::default()).await;
        assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 429));
        evicted.push(first);
    }
    for name in evicted {
        world.until_gone(&name).await;
    }
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_namespace_has_its_defaults_and_gets_them_back() {
    let world = TestNode::start().await;
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    Api::all(world.client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), "team");
    let bundles: Api<ConfigMap> = Api::namespaced(world.client.clone(), "team");
    let there = async || {
        while accounts.get_opt("default").await.unwrap().is_none()
            || bundles.get_opt("kube-root-ca.crt").await.unwrap().is_none()
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), there()).await.unwrap();
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), there()).await.unwrap();
    assert_eq!(bundles.get("kube-root-ca.crt").await.unwrap().data.unwrap()["ca.crt"], "ca");
    world.end().await;
}
