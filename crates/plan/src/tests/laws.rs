//! Laws for all single-node services: an applied plan plans the same again, and stopping removes everything.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use longboat_compose::{ConfigSet, Layer, PresetNames, platform::Platform, presets};
use longboat_key::{Key, Name, Namespace};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{SYSTEM_NAMESPACE, cluster_model::ClusterModel, simulate};
use crate::Snapshot;

pub(super) const NAMESPACE: &str = "team";

/// A service that this release supports.
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
        Just(json!({"route": {}, "scheduler": {"tokenizer": {}}})),
        Just(
            json!({"route": {}, "scheduler": {"labels": {"team": "x"}, "config": {"inline": {"kind": "EndpointPickerConfig"}}}})
        ),
    ];
    let extras = (prop::option::of(0..4_i32), any::<bool>(), any::<bool>());
    let adapters = prop::sample::select(vec![
        json!([]),
        json!([{"name": "b/C", "uri": "pvc://claim/b"}]),
        json!([{"name": "z", "uri": "hf://o/z"}, {"name": "a", "uri": "s3://b/a"}, {"name": "p", "uri": "pvc://c"}]),
    ]);
    let more = (adapters, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (uri, router, extras, more).prop_map(|(uri, router, (replicas, labels, container), (adapters, prefill, tiers, groups, prefill_groups, scaled))| {
        let mut spec = json!({"model": {"uri": uri, "lora": {"adapters": adapters}}});
        if scaled && replicas.is_none() {
            spec["scaling"] = json!({"minReplicas": 1, "maxReplicas": 3, "wva": {"variantCost": "10.0", "hpa": {}}});
        }
        let group = json!({"containers": [{"name": "main", "ports": [{"containerPort": 8000}]}]});
        let parallel = json!({"data": 4, "dataLocal": 2});
        if groups {
            (spec["worker"], spec["parallelism"]) = (group.clone(), parallel.clone());
        }
        if prefill {
            spec["prefill"] = json!({"replicas": 2});
            if prefill_groups {
                (spec["prefill"]["worker"], spec["prefill"]["parallelism"]) = (group, parallel);
            }
        }
        if tiers {
            let tier = json!({"fileSystem": {"emptyDir": {"size": "1Gi"}}});
            spec["kvCacheOffloading"] = json!({"cpu": "1Gi", "evictionPolicy": "lru", "secondary": [tier, tier]});
        }
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

pub(super) fn world(configs: &ConfigSet, tls: bool) -> ClusterModel {
    let ingress = format!(
        r#"{{"ingressGateway": "x/y", "kserveIngressGateway": "kserve/gw", "enableLLMInferenceServiceTLS": {tls}}}"#
    );
    let storage = r#"{"image": "i", "enableModelcar": true, "cpuRequest": "100m", "cpuLimit": "1", "memoryRequest": "1Mi", "memoryLimit": "1Gi"}"#;
    let data = [("ingress", ingress.as_str()), ("storageInitializer", storage)];
    let data: BTreeMap<String, String> = data.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
    let platform = Arc::new(Platform::parse(&data, SYSTEM_NAMESPACE).unwrap());
    let now = "2026-11-20T00:00:00Z".parse().unwrap();
    let mut world =
        ClusterModel::new(Snapshot::empty(now, platform, SYSTEM_NAMESPACE.to_shared()), configs.clone());
    world.put(
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "gw"},
            "spec": {"gatewayClassName": "x", "listeners": [{"name": "http", "port": 8080, "protocol": "HTTP"}]},
            "status": {"addresses": [{"value": "127.0.0.1"}]},
        }),
        &SYSTEM_NAMESPACE,
    );
    world
}

/// The world of one service.
pub(super) fn settled(service: Value) -> ClusterModel {
    let mut world = world(&presets_as_layers(), false);
    world.put(service, NAMESPACE);
    world.settle();
    world
}

pub(super) fn children(world: &ClusterModel) -> Vec<String> {
    let mut found = BTreeMap::new();
    world.children(NAMESPACE, &mut found);
    found.into_keys().collect()
}

#[test]
fn a_settled_service_is_not_written_to_and_stopping_removes_what_resuming_brings_back() {
    let configs = presets_as_layers();
    proptest!(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() }, |(service in service(), tls in any::<bool>())| {
        let mut world = world(&configs, tls);
        world.put(service.clone(), NAMESPACE);
        world.settle();
        let running = children(&world);
        prop_assert!(!running.is_empty());
        let status = world.services[&Key::new(Namespace(NAMESPACE), Name("llm"))].status.clone().unwrap();
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

pub(super) fn plain() -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": "llm"},
        "spec": {"model": {"uri": "hf://org/model"}, "router": {"route": {}, "scheduler": {}}},
    })
}

pub(super) fn with_prefill() -> Value {
    let mut service = plain();
    service["spec"]["prefill"] = json!({});
    service
}

pub(super) fn presets_as_layers() -> ConfigSet {
    let builtin = presets::builtin(&PresetNames::default(), SYSTEM_NAMESPACE).unwrap();
    builtin.iter().map(|preset| Layer::new(preset).unwrap()).collect()
}

#[test]
fn prefill_comes_and_goes_without_any_deployment_being_replaced() {
    let mut world = world(&presets_as_layers(), false);
    for service in [plain(), with_prefill(), plain()] {
        world.put(service, NAMESPACE);
        world.settle();
    }
    let touched: Vec<&String> =
        world.writes.iter().filter(|write| write.contains("Deployment team/llm-kserve")).collect();
    assert_eq!(
        touched,
        [
            "Created v1.Deployment team/llm-kserve",
            "Created v1.Deployment team/llm-kserve-router-scheduler",
            "Updated v1.Deployment team/llm-kserve",
            "Created v1.Deployment team/llm-kserve-prefill",
            // The default configuration depends on whether the service has prefill.
            "Updated v1.Deployment team/llm-kserve-router-scheduler",
            "Deleted v1.Deployment team/llm-kserve-prefill",
            "Updated v1.Deployment team/llm-kserve",
            "Updated v1.Deployment team/llm-kserve-router-scheduler",
        ]
    );
}

#[test]
fn a_deployment_that_selects_by_what_its_pods_do_is_replaced_only_when_that_changes() {
    let mut world = settled(plain());
    // The selector that the reference would create.
    let mut deployment =
        world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve")).unwrap().clone();
    let spec = deployment.spec.as_mut().unwrap();
    spec.selector.match_labels.as_mut().unwrap().insert("llm-d.ai/role".into(), "both".into());
    world.store(deployment);
    let before = world.writes.len();
    world.settle();
    assert_eq!(world.writes.len(), before, "what can be taken over is");
    world.put(with_prefill(), NAMESPACE);
    world.settle();
    let writes: Vec<&String> =
        world.writes[before..].iter().filter(|write| write.ends_with("Deployment team/llm-kserve")).collect();
    assert_eq!(writes, ["Deleted v1.Deployment team/llm-kserve", "Created v1.Deployment team/llm-kserve"]);
}

#[test]
fn what_serves_stays_until_its_successor_serves() {
    let mut world = world(&presets_as_layers(), false);
    let mut grouped = plain();
    grouped["spec"]["worker"] = json!({"containers": [{"name": "main"}]});
    grouped["spec"]["parallelism"] = json!({"data": 4, "dataLocal": 2});
    let (single, group) = ("deployment-llm-kserve.yaml", "leaderworkerset-llm-kserve-mn.yaml");
    let has = |world: &ClusterModel, name: &str| children(world).iter().any(|child| child == name);
    world.put(plain(), NAMESPACE);
    world.settle();
    for (service, before, after) in [(grouped, single, group), (plain(), group, single)] {
        simulate::ready(&mut world, NAMESPACE, &json!({}));
        world.settle();
        assert!(has(&world, before) && !has(&world, after), "the old one: {:?}", children(&world));
        world.put(service, NAMESPACE);
        world.settle();
        assert!(has(&world, before) && has(&world, after), "both: {:?}", children(&world));
    }
}

#[test]
fn workloads_of_several_replicas_get_a_budget_where_the_platform_says_so() {
    let mut world = world(&presets_as_layers(), false);
    let budgets = |world: &ClusterModel| {
        let all = world.snapshot.pod_disruption_budgets.iter();
        all.map(|budget| budget.metadata.name.clone().unwrap()).collect::<Vec<_>>()
    };
    let with_replicas = |replicas: Value| {
        let mut service = plain();
        service["spec"]["replicas"] = replicas;
        service["spec"]["prefill"] = json!({"replicas": 3});
        service
    };
    world.put(with_replicas(json!(2)), NAMESPACE);
    world.settle();
    assert!(budgets(&world).is_empty());
    Arc::make_mut(&mut world.snapshot.platform).disruption_budgets = true;
    world.settle();
    assert_eq!(budgets(&world), ["llm-kserve", "llm-kserve-prefill"]);
    let deployment = world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve")).unwrap();
    let budget = world.snapshot.pod_disruption_budgets.get(Namespace(NAMESPACE), Name("llm-kserve")).unwrap();
    let (spec, selector) = (budget.spec.as_ref().unwrap(), &deployment.spec.as_ref().unwrap().selector);
    assert_eq!((spec.selector.as_ref(), &spec.max_unavailable), (Some(selector), &Some(IntOrString::Int(1))));
    world.put(with_replicas(json!(1)), NAMESPACE);
    world.settle();
    assert_eq!(budgets(&world), ["llm-kserve-prefill"]);
    Arc::make_mut(&mut world.snapshot.platform).disruption_budgets = false;
    world.settle();
    assert!(budgets(&world).is_empty());
}

#[test]
fn only_the_namespaces_that_the_platform_names_may_call_pickers() {
    let mut world = world(&presets_as_layers(), false);
    let mut service = plain();
    service["spec"]["router"] = json!({"route": {}, "gateway": {}, "scheduler": {}});
    world.put(service, NAMESPACE);
    world.settle();
    assert_eq!(world.snapshot.network_policies.iter().count(), 0);
    Arc::make_mut(&mut world.snapshot.platform).picker_clients = vec!["gateways".into()];
    world.settle();
    let policies: Vec<_> = world.snapshot.network_policies.iter().map(|policy| json!(policy.spec)).collect();
    let [policy] = &policies[..] else { panic!("{policies:#?}") };
    let picker =
        world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve-router-scheduler")).unwrap();
    assert_eq!(policy["podSelector"], json!(picker.spec.as_ref().unwrap().selector));
    let port = |number: u16| json!({"port": number, "protocol": "TCP"});
    let gateways = json!({"namespaceSelector": {"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["gateways"]},
    ]}});
    assert_eq!(
        policy["ingress"],
        json!([{"from": [gateways], "ports": [port(9002)]}, {"ports": [port(9003), port(9090), port(5557)]}])
    );
    Arc::make_mut(&mut world.snapshot.platform).picker_clients.clear();
    world.settle();
    assert_eq!(world.snapshot.network_policies.iter().count(), 0);
}

#[test]
fn our_initializer_names_its_role_and_a_running_one_keeps_its_image_command_and_memory() {
    const ENTRY_POINT: &str = "/storage-initializer/scripts/initializer-entrypoint";
    let set = |world: &mut ClusterModel, ours: bool| {
        let platform = Arc::make_mut(&mut world.snapshot.platform);
        platform.storage.ours = ours;
        platform.storage.image = if ours { "ours:1" } else { "theirs:1" }.to_owned();
        platform.storage.memory_limit = if ours { "100Mi" } else { "1Gi" }.to_owned();
    };
    let made = |world: &ClusterModel| {
        let deployment = world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve")).unwrap();
        let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
        let all = pod.init_containers.iter().flatten();
        let container =
            all.clone().find(|container| container.name == "storage-initializer").unwrap().clone();
        let limits = container.resources.unwrap().limits.unwrap();
        (container.image.unwrap(), container.command, limits["memory"].0.clone())
    };
    let ours = ("ours:1".to_owned(), Some(vec![ENTRY_POINT.to_owned()]), "100Mi".to_owned());
    let theirs = ("theirs:1".to_owned(), None, "1Gi".to_owned());

    let mut world = world(&presets_as_layers(), false);
    set(&mut world, true);
    world.put(plain(), NAMESPACE);
    world.settle();
    assert_eq!(made(&world), ours);

    let mut world = self::world(&presets_as_layers(), false);
    set(&mut world, false);
    world.put(plain(), NAMESPACE);
    world.settle();
    assert_eq!(made(&world), theirs);
    set(&mut world, true);
    world.settle();
    assert_eq!(made(&world), theirs, "what runs needs the memory that it had");

    // Another image has another entry point.
    let mut custom = plain();
    custom["metadata"]["name"] = "custom".into();
    custom["spec"]["template"] = json!({
        "containers": [{"name": "main"}],
        "initContainers": [{"name": "storage-initializer", "image": "custom:1"}],
    });
    world.put(custom, NAMESPACE);
    world.settle();
    let deployment = world.snapshot.deployments.get(Namespace(NAMESPACE), Name("custom-kserve")).unwrap();
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    let container =
        pod.init_containers.iter().flatten().find(|container| container.name == "storage-initializer");
    assert_eq!(container.unwrap().command, None);
}
