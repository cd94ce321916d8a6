//! Values that stay if no layer sets them: host names of a route, the configuration of a picker. But a value that the service
//! itself set before is removed when the service no longer sets it, so that the result does not depend on the history.

use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, presets_as_layers, with_prefill, world},
};
use crate::names;

fn settled(services: &[Value]) -> ClusterModel {
    let mut world = world(&presets_as_layers(), false);
    for service in services {
        world.put(service.clone(), NAMESPACE);
        world.settle();
    }
    world
}

fn with(pointer: &str, value: Value) -> Value {
    let mut service = plain();
    *service.pointer_mut(pointer).unwrap() = value;
    service
}

fn picker_args(world: &ClusterModel) -> Vec<String> {
    let picker =
        world.snapshot.deployments.get(Namespace(NAMESPACE), Name("llm-kserve-router-scheduler")).unwrap();
    let pod = picker.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    pod.containers[0].args.clone().unwrap_or_default()
}

fn url(world: &ClusterModel) -> Option<String> {
    let service = world.services.values().next().unwrap();
    service.status.as_ref().unwrap().url.clone()
}

/// Returns the reasons of the events that planning records about a live service.
fn said(world: &ClusterModel) -> Vec<&'static str> {
    let service = world.services.values().next().unwrap();
    let composed = super::composing::compose(world, service);
    let plan = crate::children(service, composed.spec.as_ref().unwrap(), &world.snapshot).unwrap();
    plan.events.into_iter().map(|event| event.reason).collect()
}

fn inline() -> Value {
    let plugins = json!([{"type": "queue-scorer"}, {"type": "max-score-picker"}]);
    let profile = json!({"name": "default", "plugins": [{"pluginRef": "queue-scorer"}, {"pluginRef": "max-score-picker"}]});
    json!({
        "apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig",
        "plugins": plugins, "schedulingProfiles": [profile],
    })
}

#[test]
fn a_picker_follows_the_shape_of_its_service_unless_it_is_told_how_to_pick() {
    let adapters = with(
        "/spec/model",
        json!({"uri": "hf://o/m", "lora": {"adapters": [{"name": "a", "uri": "hf://o/a"}]}}),
    );
    let told = with("/spec/router/scheduler", json!({"config": {"inline": inline()}}));
    for (way, end) in [
        (vec![plain(), with_prefill()], with_prefill()),
        (vec![with_prefill(), plain()], plain()),
        (vec![plain(), adapters.clone()], adapters),
        (vec![plain(), told.clone()], told),
    ] {
        let world = settled(&way);
        assert_eq!(picker_args(&world), picker_args(&settled(&[end])));
        assert_eq!(said(&world), Vec::<&str>::new());
    }
}

#[test]
fn a_picker_keeps_a_configuration_that_is_no_default_and_the_user_is_told() {
    let told = with("/spec/router/scheduler", json!({"config": {"inline": inline()}}));
    let mut world = settled(&[told]);
    let before = picker_args(&world);
    world.put(plain(), NAMESPACE);
    world.settle();
    assert_eq!(picker_args(&world), before);
    assert_eq!(said(&world), ["SchedulerConfigKept"]);
}

#[test]
fn an_inline_configuration_takes_the_place_of_a_file_in_the_template() {
    for flags in
        [json!(["--config-file", "/etc/epp.yaml", "--v=2"]), json!(["-configFile=/etc/epp.yaml", "--v=2"])]
    {
        let template = json!({"containers": [{"name": "main", "args": flags}]});
        let scheduler = json!({"config": {"inline": inline()}, "template": template});
        let args = picker_args(&settled(&[with("/spec/router/scheduler", scheduler)]));
        assert_eq!(args[..2], ["--v=2", "--config-text"]);
        assert_eq!(args.len(), 3, "{args:?}");
    }
}

#[test]
fn a_plugin_of_the_template_gets_its_tokenizer_in_either_form_of_the_flag() {
    let text = r#"{"kind": "EndpointPickerConfig", "plugins": [{"type": "precise-prefix-cache-scorer"}]}"#;
    for flags in [json!(["--config-text", text]), json!([format!("--config-text={text}")])] {
        let template = json!({"containers": [{"name": "main", "args": flags}]});
        let world = settled(&[with("/spec/router/scheduler", json!({"template": template}))]);
        let tokenizer = names::tokenizer(Name("llm"));
        assert!(world.snapshot.deployments.get(Namespace(NAMESPACE), Name(&tokenizer)).is_some(), "{flags}");
        assert!(picker_args(&world)[1].contains(&tokenizer), "{flags}");
    }
}

/// The parts of the default that earlier releases did not write, and what they wrote.
const SHARED_PREFIXES: (&str, &str) =
    ("- parameters:\n    sharedPrefixAfter: 5\n  type: approx-prefix-cache-producer\n", "");
const EARLIER_DEFAULTS: [(&str, &str); 2] = [
    ("no-hit-least-requests-scorer", "no-hit-lru-scorer"),
    ("apiVersion: llm-d.ai/v1\n", "apiVersion: llm-d.ai/v1alpha1\n"),
];

fn replaced(arg: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(arg.to_owned(), |arg, (from, to)| arg.replace(from, to))
}

#[test]
fn a_new_picker_spreads_conversations_and_a_running_one_goes_on_as_it_does() {
    let newest = picker_args(&settled(&[plain()]));
    let has = |args: &[String], part: &str| args.iter().any(|arg| arg.contains(part));
    for (part, _) in EARLIER_DEFAULTS.iter().chain([&SHARED_PREFIXES]) {
        assert!(has(&newest, part), "{newest:?}");
    }
    let reference = [EARLIER_DEFAULTS[0], EARLIER_DEFAULTS[1], SHARED_PREFIXES];
    for earlier in [&EARLIER_DEFAULTS[..], &reference] {
        let mut world = settled(&[plain()]);
        let mut picker = world
            .snapshot
            .deployments
            .get(Namespace(NAMESPACE), Name("llm-kserve-router-scheduler"))
            .unwrap()
            .clone();
        let pod = picker.spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        for arg in pod.containers[0].args.iter_mut().flatten() {
            *arg = replaced(arg, earlier);
        }
        world.store(picker);
        world.settle();
        let before: Vec<String> = newest.iter().map(|arg| replaced(arg, earlier)).collect();
        assert_ne!(before, newest);
        assert_eq!(picker_args(&world), before, "the text of an earlier release stays, so no picker rolls");
        for shape in [with_prefill(), plain()] {
            world.put(shape, NAMESPACE);
            world.settle();
            let args = picker_args(&world);
            assert_eq!(has(&args, SHARED_PREFIXES.0), has(&before, SHARED_PREFIXES.0), "{args:?}");
            assert!(has(&args, EARLIER_DEFAULTS[1].1), "{args:?}");
        }
        assert_eq!(picker_args(&world), before);
        assert_eq!(said(&world), Vec::<&str>::new());
    }
}

#[test]
fn the_default_is_the_policy_that_the_simulations_measure() {
    let policy = include_str!("../../../../benches/picker/policies/longboat.yaml");
    let read = |text: &str| serde_saphyr::from_str::<serde_json::Value>(text).unwrap();
    let args = picker_args(&settled(&[plain()]));
    let text = args.iter().find(|arg| arg.contains("EndpointPickerConfig")).unwrap();
    assert_eq!(read(text), read(policy));
}

#[test]
fn host_names_that_the_service_asked_for_go_with_it_and_those_of_others_stay() {
    let names = |world: &ClusterModel| {
        world
            .snapshot
            .http_routes
            .get(Namespace(NAMESPACE), Name("llm-kserve-route"))
            .unwrap()
            .spec
            .hostnames
            .clone()
    };
    let custom = with("/spec/router/route", json!({"http": {"spec": {"hostnames": ["a.example.com"]}}}));
    let mut world = settled(&[custom.clone(), plain()]);
    assert_eq!(names(&world), Vec::<String>::new());
    let mut route =
        world.snapshot.http_routes.get(Namespace(NAMESPACE), Name("llm-kserve-route")).unwrap().clone();
    route.spec.hostnames = vec!["theirs.example.com".to_owned()];
    world.store(route);
    world.put(with_prefill(), NAMESPACE);
    world.settle();
    assert_eq!(names(&world), ["theirs.example.com"]);
    world.put(custom, NAMESPACE);
    world.settle();
    assert_eq!(names(&world), ["a.example.com"]);
    assert!(url(&world).is_some_and(|url| url.contains("a.example.com")));
}

#[test]
fn there_is_no_url_without_a_route() {
    let mut stopped = plain();
    stopped["metadata"]["annotations"] = json!({"serving.kserve.io/stop": "true"});
    for gone in [with("/spec/router", json!({})), with("/spec/router", Value::Null), stopped] {
        let mut world = settled(&[plain()]);
        assert!(url(&world).is_some());
        world.put(gone, NAMESPACE);
        world.settle();
        assert_eq!(url(&world), None);
    }
}

#[test]
fn a_gateway_that_came_is_not_missed_any_more_while_something_else_is_missing() {
    let mut world = world(&presets_as_layers(), false);
    let gateways = std::mem::take(&mut world.snapshot.gateways);
    world.put(plain(), NAMESPACE);
    world.settle();
    let reason = |world: &ClusterModel, type_: &str| {
        let status = world.services.values().next().unwrap().status.clone().unwrap();
        status.conditions.into_iter().find(|found| found.type_ == type_).map(|found| found.reason)
    };
    assert_eq!(reason(&world, "HTTPRoutesReady").as_deref(), Some("RefsInvalid"));

    world.snapshot.gateways = gateways;
    world.snapshot.capabilities.inference_pool = false;
    world.snapshot.capabilities.inference_pool_x = false;
    world.settle();
    assert_eq!(reason(&world, "HTTPRoutesReady"), None);
    assert_eq!(reason(&world, "RouterReady").as_deref(), Some("SchedulerReconcileError"));
}

/// Removes APIs and their objects.
fn without(world: &mut ClusterModel, apis: &[&str]) {
    let snapshot = &mut world.snapshot;
    for api in apis {
        match *api {
            "pools" => {
                snapshot.capabilities.inference_pool = false;
                snapshot.inference_pools = crate::ObservedObjects::default();
            }
            "older pools" => {
                snapshot.capabilities.inference_pool_x = false;
                snapshot.inference_pools_x = crate::ObservedObjects::default();
            }
            _ => {
                snapshot.capabilities.gateway_api = false;
                snapshot.http_routes = crate::ObservedObjects::default();
                snapshot.gateways = crate::ObservedObjects::default();
            }
        }
    }
    world.settle();
}

#[test]
fn what_is_said_does_not_depend_on_the_order_in_which_apis_went() {
    let said = |groups: &[&[&str]]| {
        let mut world = settled(&[plain()]);
        for group in groups {
            without(&mut world, group);
        }
        let status = world.services.values().next().unwrap().status.clone().unwrap();
        let conditions = status.conditions.into_iter();
        conditions.map(|found| (found.type_, found.status, found.reason, found.message)).collect::<Vec<_>>()
    };
    let at_once = said(&[&["pools", "older pools", "gateways"]]);
    let router = at_once.iter().find(|(type_, ..)| type_ == "RouterReady").unwrap();
    assert!(router.3.contains("install the Gateway API"), "{router:?}");
    for order in [
        [["pools"], ["older pools"], ["gateways"]],
        [["older pools"], ["pools"], ["gateways"]],
        [["pools"], ["gateways"], ["older pools"]],
        [["gateways"], ["pools"], ["older pools"]],
    ] {
        let order: Vec<&[&str]> = order.iter().map(|group| &group[..]).collect();
        assert_eq!(said(&order), at_once, "{order:?}");
    }
}
