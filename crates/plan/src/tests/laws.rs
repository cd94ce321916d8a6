//! What holds for every single-node service: plans that were applied plan themselves again, and stopping removes it all.

use std::{collections::BTreeMap, sync::Arc};

use longboat_compose::{ConfigSet, Layer, PresetNames, platform::Platform, presets};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{SYSTEM_NAMESPACE, simulate, world::World};
use crate::Snapshot;

const NAMESPACE: &str = "team";

/// A service that this release can run.
fn service() -> impl Strategy<Value = Value> {
    let uri = prop::sample::select(vec![
        "hf://org/model",
        "s3://bucket/m",
        "pvc://claim/m",
        "oci://image:1",
        "gs://b/m",
    ]);
    let router = prop_oneof![
        Just(Value::Null),
        Just(json!({"route": {}})),
        Just(json!({"route": {}, "gateway": {}, "scheduler": {}})),
        Just(json!({"scheduler": {"replicas": 2}})),
        Just(
            json!({"route": {}, "scheduler": {"labels": {"team": "x"}, "config": {"inline": {"kind": "EndpointPickerConfig"}}}})
        ),
    ];
    let extras = (prop::option::of(0..4_i32), any::<bool>(), any::<bool>());
    (uri, router, extras).prop_map(|(uri, router, (replicas, labels, container))| {
        let mut spec = json!({"model": {"uri": uri}});
        if !router.is_null() {
            spec["router"] = router;
        }
        if let Some(replicas) = replicas {
            spec["replicas"] = replicas.into();
        }
        if labels {
            spec["labels"] = json!({"app.kubernetes.io/name": "other", "team": "x"});
            spec["annotations"] = json!({"note": "y"});
        }
        if container {
            let resources = json!({"limits": {"cpu": "2000m", "nvidia.com/gpu": "1"}});
            spec["template"] = json!({"containers": [{"name": "main", "resources": resources}, {"name": "beside", "image": "x"}]});
        }
        json!({"apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": "llm"}, "spec": spec})
    })
}

fn world(configs: &ConfigSet, tls: bool) -> World {
    let ingress = format!(
        r#"{{"ingressGateway": "x/y", "kserveIngressGateway": "kserve/gw", "enableLLMInferenceServiceTLS": {tls}}}"#
    );
    let storage = r#"{"image": "i", "enableModelcar": true, "cpuRequest": "100m", "cpuLimit": "1", "memoryRequest": "1Mi", "memoryLimit": "1Gi"}"#;
    let data = [("ingress", ingress.as_str()), ("storageInitializer", storage)];
    let data: BTreeMap<String, String> = data.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
    let platform = Arc::new(Platform::parse(&data, SYSTEM_NAMESPACE).unwrap());
    let now = "2026-11-20T00:00:00Z".parse().unwrap();
    let mut world = World::new(Snapshot::empty(now, platform, SYSTEM_NAMESPACE), configs.clone());
    world.put(
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "gw"},
            "spec": {"gatewayClassName": "x", "listeners": [{"name": "http", "port": 8080, "protocol": "HTTP"}]},
            "status": {"addresses": [{"value": "127.0.0.1"}]},
        }),
        SYSTEM_NAMESPACE,
    );
    world
}

fn children(world: &World) -> Vec<String> {
    let mut found = BTreeMap::new();
    world.children(NAMESPACE, &mut found);
    found.into_keys().collect()
}

#[test]
fn a_settled_service_is_not_written_to_and_stopping_removes_what_resuming_brings_back() {
    let names = PresetNames::default();
    let builtin = presets::builtin(&names, SYSTEM_NAMESPACE).unwrap();
    let configs: ConfigSet = builtin.iter().map(|preset| Layer::new(preset).unwrap()).collect();
    proptest!(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() }, |(service in service(), tls in any::<bool>())| {
        let mut world = world(&configs, tls);
        world.put(service.clone(), NAMESPACE);
        prop_assert_eq!(world.settle(), None);
        let running = children(&world);
        prop_assert!(!running.is_empty());
        let status = world.services[&(NAMESPACE.to_owned(), "llm".to_owned())].status.clone().unwrap();
        let url = (!service["spec"]["router"]["route"].is_null()).then_some("http://127.0.0.1:8080/team/llm");
        prop_assert_eq!(status.url.as_deref(), url);

        let writes = world.writes.len();
        simulate::ready(&mut world, NAMESPACE, &json!({}));
        world.settle();
        prop_assert_eq!(&world.writes[writes..], &[] as &[String], "readiness alone leads to no write");

        let mut stopped = service.clone();
        stopped["metadata"]["annotations"] = json!({"serving.kserve.io/stop": "True"});
        world.put(stopped, NAMESPACE);
        world.settle();
        prop_assert_eq!(children(&world), Vec::<String>::new());

        world.put(service.clone(), NAMESPACE);
        world.settle();
        prop_assert_eq!(children(&world), running);
    });
}
