//! Tests of the in-process client.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use longboat_apiserver::{ApiServer, Options};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("k".to_owned(), "v".repeat(200))])),
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn a_client_in_the_process_creates_applies_and_watches() {
    let server = ApiServer::new(Options::default()).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    let created = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let revision = created.metadata.resource_version.unwrap();
    let patch = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "y"}});
    let applied = maps.patch("a", &PatchParams::apply("test"), &Patch::Apply(&patch)).await.unwrap();
    assert_eq!(applied.data.unwrap()["x"], "y");
    let mut events = maps.watch(&WatchParams::default(), &revision).await.unwrap().boxed();
    let Some(WatchEvent::Modified(seen)) = events.try_next().await.unwrap() else {
        panic!("no change was seen")
    };
    assert_eq!(seen.data.unwrap()["x"], "y");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Deleted(_))));
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_even_if_there_is_always_another_change() {
    let server = ApiServer::new(Options::default()).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    let params = WatchParams::default().timeout(1);
    let mut events = maps.watch(&params, "").await.unwrap().boxed();
    let changes = async {
        for index in 0.. {
            maps.create(&PostParams::default(), &config_map(&format!("c{index}"))).await.unwrap();
            if events.try_next().await.unwrap().is_none() {
                return;
            }
        }
    };
    timeout(Duration::from_secs(30), changes).await.expect("the watch ends");
}

#[tokio::test]
async fn a_list_of_two_thousand_objects_takes_well_under_a_second() {
    let server = ApiServer::new(Options::default()).unwrap();
    let client = server.client("default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    for index in 0..2_000 {
        maps.create(&PostParams::default(), &config_map(&format!("c{index}"))).await.unwrap();
    }
    let request = || http::Request::get("/api/v1/namespaces/default/configmaps").body(Vec::new()).unwrap();
    // the first list encodes every object once
    client.request_text(request()).await.unwrap();
    let begun = Instant::now();
    let text = client.request_text(request()).await.unwrap();
    let took = begun.elapsed();
    assert!(text.len() > 600_000, "{} bytes", text.len());
    assert!(took.as_millis() < 1000, "the list took {took:?} in a debug build");
    let some = maps.list(&ListParams::default().limit(10)).await.unwrap();
    assert_eq!(some.items.len(), 10);
    assert_eq!(some.metadata.remaining_item_count, Some(1_990));
}

#[tokio::test]
async fn a_deleted_namespace_is_emptied_and_goes() {
    let server = ApiServer::new(Options::default()).unwrap();
    let shutdown = CancellationToken::new();
    let loops = tokio::spawn({
        let (server, shutdown) = (server.clone(), shutdown.clone());
        async move { server.run_loops(shutdown).await }
    });
    let client = server.client("default");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some("brief".to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "brief");
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    namespaces.delete("brief", &DeleteParams::default()).await.unwrap();
    for _ in 0..100 {
        if namespaces.get_opt("brief").await.unwrap().is_none() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(namespaces.get_opt("brief").await.unwrap().is_none());
    assert!(maps.get_opt("a").await.unwrap().is_none());
    shutdown.cancel();
    loops.await.unwrap();
}

#[tokio::test]
async fn dependents_go_with_their_owner_and_orphans_stay() {
    let server = ApiServer::new(Options::default()).unwrap();
    let shutdown = CancellationToken::new();
    let loops = tokio::spawn({
        let (server, shutdown) = (server.clone(), shutdown.clone());
        async move { server.run_loops(shutdown).await }
    });
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    for (owner, params, stays) in [
        ("background", DeleteParams::background(), false),
        ("foreground", DeleteParams::foreground(), false),
        ("orphan", DeleteParams::orphan(), true),
    ] {
        let uid =
            maps.create(&PostParams::default(), &config_map(owner)).await.unwrap().metadata.uid.unwrap();
        let dependent = format!("of-{owner}");
        let mut object = config_map(&dependent);
        object.metadata.owner_references = Some(vec![
            serde_json::from_value(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid,
                "blockOwnerDeletion": true}),
            )
            .unwrap(),
        ]);
        maps.create(&PostParams::default(), &object).await.unwrap();
        maps.delete(owner, &params).await.unwrap();
        let mut gone = false;
        for _ in 0..100 {
            gone = maps.get_opt(owner).await.unwrap().is_none()
                && (stays || maps.get_opt(&dependent).await.unwrap().is_none());
            if gone {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(gone, "{owner}");
        assert_eq!(maps.get_opt(&dependent).await.unwrap().is_some(), stays, "{owner}");
    }
    shutdown.cancel();
    loops.await.unwrap();
}
