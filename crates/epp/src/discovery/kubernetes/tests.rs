use std::{convert::Infallible, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, api::DynamicObject, client::Body, runtime::watcher::Event};
use longboat_watch::Watched;
use serde_json::json;

use super::{Follower, Pools, Selection, endpoints, selection};
use crate::tests::support;

#[test]
fn both_generations_of_pools_say_which_pods_and_ports() {
    let v1 = json!({"spec": {"selector": {"matchLabels": {"a": "b", "c": "d"}}, "targetPorts": [{"number": 8000}, {"number": 8001}]}});
    let found = selection(&v1).unwrap();
    assert_eq!((found.selector.as_str(), found.ports.as_slice()), ("a=b,c=d", &[8000, 8001][..]));
    let v1alpha2 = json!({"spec": {"selector": {"a": "b"}, "targetPortNumber": 8000}});
    let found = selection(&v1alpha2).unwrap();
    assert_eq!((found.selector.as_str(), found.ports.as_slice()), ("a=b", &[8000][..]));
    assert!(selection(&json!({"spec": {"selector": {}, "targetPortNumber": 8000}})).is_none());
    assert!(selection(&json!({})).is_none());
}

fn pod(change: impl FnOnce(&mut serde_json::Value)) -> Pod {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "labels": {"x": "y"}, "annotations": {}},
        "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

#[test]
fn a_ready_pod_is_an_endpoint_per_port() {
    let found = endpoints(&pod(|_| ()), &[8000, 8001]);
    let names: Vec<_> = found.iter().map(|endpoint| endpoint.name.as_str()).collect();
    assert_eq!(names, ["p-rank-0", "p-rank-1"]);
    assert_eq!(found[1].address.to_string(), "10.0.0.1:8001");
    assert_eq!((found[0].namespace.as_str(), found[0].labels["x"].as_str()), ("ns", "y"));
}

#[test]
fn an_annotation_restricts_the_ports_and_ranks_stay() {
    let annotated = pod(|pod| pod["metadata"]["annotations"]["llm-d.ai/active-ports"] = json!("8001, 9"));
    let found = endpoints(&annotated, &[8000, 8001]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name, "p-rank-1");
}

#[test]
fn pods_that_are_not_ready_or_on_their_way_out_are_no_endpoints() {
    let unready = pod(|pod| pod["status"]["conditions"][0]["status"] = json!("False"));
    let leaving = pod(|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    let nowhere = pod(|pod| pod["status"]["podIP"] = json!(null));
    for pod in [unready, leaving, nowhere] {
        assert!(endpoints(&pod, &[8000]).is_empty());
    }
}

#[test]
fn the_pool_of_the_other_group_serves_where_the_first_has_none() {
    let pool = |app: &str| -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": {"name": "pool"},
            "spec": {"selector": {"app": app}, "targetPortNumber": 8000},
        }))
        .unwrap()
    };
    let mut pools = Pools::default();
    let chosen = |pools: &Pools| pools.choice().map(|selection| selection.selector);
    assert!(!pools.note(1, Ok(Event::Apply(pool("old")))), "the first group may have it too");
    pools.note(0, Ok(Event::Init));
    assert!(pools.note(0, Ok(Event::InitDone)));
    assert_eq!(chosen(&pools).as_deref(), Some("app=old"));
    assert!(pools.note(0, Ok(Event::Apply(pool("new")))));
    assert_eq!(chosen(&pools).as_deref(), Some("app=new"));
    assert!(pools.note(0, Ok(Event::Delete(pool("new")))));
    assert_eq!(chosen(&pools).as_deref(), Some("app=old"));
    assert!(pools.note(1, Ok(Event::Delete(pool("old")))));
    assert_eq!(chosen(&pools), None);
}

#[test]
fn a_pool_that_neither_group_has_is_reported_once() {
    let pool: DynamicObject = serde_json::from_value(json!({
        "metadata": {"name": "pool"},
        "spec": {"selector": {"app": "a"}, "targetPortNumber": 8000},
    }))
    .unwrap();
    let mut pools = Pools::default();
    let mut reported = |group: usize, event| {
        pools.note(group, Ok(event));
        pools.becomes_missed()
    };
    assert!(!reported(0, Event::Init) && !reported(0, Event::InitDone), "the other group may have it");
    assert!(!reported(1, Event::Init) && reported(1, Event::InitDone));
    assert!(!reported(1, Event::Init) && !reported(1, Event::InitDone), "once");
    assert!(!reported(0, Event::Apply(pool.clone())) && !reported(0, Event::Init));
    assert!(!reported(1, Event::Init) && !reported(1, Event::InitDone), "the first group lists again");
    assert!(reported(0, Event::InitDone));
    assert!(!reported(0, Event::Apply(pool.clone())) && reported(0, Event::Delete(pool)));
}

#[tokio::test]
async fn ports_that_change_before_the_pods_are_listed_make_nobody_ready() {
    let silent = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, Infallible>>()
    });
    let core = support::core("");
    let mut follower = Follower {
        client: Client::new(silent, "ns"),
        namespace: "ns".to_owned(),
        core: Arc::clone(&core),
        selection: None,
        events: futures::stream::pending().boxed(),
        pods: Watched::default(),
        pools: Pools::default(),
    };
    for port in [8000, 8001] {
        follower.select(Some(Selection { selector: "a=b".to_owned(), ports: vec![port] }));
        assert!(!core.pool.is_synced(), "no pod is known yet");
    }
    for event in [Event::Init, Event::InitApply(pod(|_| ())), Event::InitDone] {
        follower.pod_event(Ok(event));
    }
    let ports: Vec<_> = core.pool.members().iter().map(|member| member.endpoint.address.port()).collect();
    assert!(core.pool.is_synced());
    assert_eq!(ports, [8001]);
    follower.select(Some(Selection { selector: "a=b".to_owned(), ports: vec![8002] }));
    assert_eq!(core.pool.members()[0].endpoint.address.port(), 8002);
}
