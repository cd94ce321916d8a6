//! How the managed route matches the names of LoRA adapters.

use std::sync::Arc;

use longboat_api::{
    conditions::types, foreign::httproute::HTTPHeaderMatch, lora_routing::LoRaRoutingStrategy::Regex,
};
use longboat_compose::{Layer, presets};
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, presets_as_layers, world},
};

const STRATEGY: &str = "serving.kserve.io/lora-model-routing-strategy";

fn service(base: &str, adapters: &[&str]) -> Value {
    let adapters: Vec<Value> =
        adapters.iter().map(|name| json!({"name": name, "uri": "hf://o/adapter"})).collect();
    let mut service = plain();
    service["spec"]["model"] = json!({"uri": "hf://o/m", "name": base, "lora": {"adapters": adapters}});
    service
}

fn with_strategy(strategy: &str, mut service: Value) -> Value {
    service["spec"]["annotations"] = json!({STRATEGY: strategy});
    service
}

fn settled(service: Value, cluster: impl FnOnce(&mut ClusterModel)) -> ClusterModel {
    let mut world = world(&presets_as_layers(), false);
    cluster(&mut world);
    world.put(service, NAMESPACE);
    world.settle();
    world
}

fn regex_everywhere(world: &mut ClusterModel) {
    Arc::make_mut(&mut world.snapshot.platform).ingress.lora_routing = Regex;
}

/// The different matches on the model header: their type and value, in order.
fn matches(world: &ClusterModel) -> Vec<(String, String)> {
    let route = world.snapshot.http_routes.get(Namespace(NAMESPACE), Name("llm-kserve-route")).unwrap();
    let headers = route.spec.rules.iter().flat_map(|rule| &rule.matches).flat_map(|found| &found.headers);
    let mut all = Vec::new();
    for HTTPHeaderMatch { type_, name, value } in headers {
        let found = (type_.clone().unwrap_or_default(), value.clone());
        if name.eq_ignore_ascii_case("X-Gateway-Model-Name") && !all.contains(&found) {
            all.push(found);
        }
    }
    all
}

fn exact(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ("Exact".to_owned(), format!("publishers/team/models/{name}"))).collect()
}

fn condition(world: &ClusterModel) -> (String, String) {
    let status = world.services.values().next().unwrap().status.clone().unwrap();
    let found = status.conditions.into_iter().find(|found| found.type_ == types::HTTP_ROUTES_READY).unwrap();
    (found.reason, found.message)
}

#[test]
fn a_regular_expression_names_the_base_first_and_the_adapters_in_order_with_every_character_quoted() {
    let expected = vec![(
        "RegularExpression".to_owned(),
        r"^publishers/team/models/(o/m-1\.3b\+|a/b|z\(x\|y\)\$)$".to_owned(),
    )];
    let named = || service("o/m-1.3b+", &["z(x|y)$", "a/b"]);
    assert_eq!(matches(&settled(named(), regex_everywhere)), expected);
    assert_eq!(matches(&settled(with_strategy(" ReGex ", named()), |_| ())), expected);
    // A service without adapters keeps what it has.
    assert_eq!(matches(&settled(service("m", &[]), regex_everywhere)), exact(&["m"]));
}

#[test]
fn the_service_overrides_the_platform_and_its_pods_do_not_notice() {
    let named = || service("m", &["b", "a"]);
    assert_eq!(matches(&settled(named(), |_| ())), exact(&["m", "a", "b"]));
    let mut world = settled(with_strategy("exact", named()), regex_everywhere);
    assert_eq!(matches(&world), exact(&["m", "a", "b"]));
    // An empty value leaves it to the platform.
    for (strategy, is_exact) in [("", false), ("exact", true), ("regex", false)] {
        let writes = world.writes.len();
        world.put(with_strategy(strategy, named()), NAMESPACE);
        world.settle();
        assert_eq!(matches(&world) == exact(&["m", "a", "b"]), is_exact, "{strategy:?}");
        assert_eq!(world.writes[writes..], ["Updated v1.HTTPRoute team/llm-kserve-route"]);
    }
}

#[test]
fn the_name_of_the_header_has_no_case() {
    let spelled = |world: &mut ClusterModel| {
        Arc::make_mut(&mut world.snapshot.platform).ingress.model_header = "x-gateway-MODEL-name".to_owned();
    };
    let mut own = service("m", &["a"]);
    own["spec"]["router"]["route"]["http"] = json!({"spec": {
        "parentRefs": [{"name": "gw", "namespace": "kserve"}],
        "rules": [{"matches": [{"headers": [{"name": "X-Gateway-Model-Name", "value": "publishers/team/models/m"}]}]}],
    }});
    let models =
        |world: &ClusterModel| matches(world).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
    let world = settled(own.clone(), spelled);
    assert_eq!(models(&world), ["publishers/team/models/m", "publishers/team/models/a"]);
    // Without routing by model name, nothing of it stays.
    let off = settled(own, |world| {
        spelled(world);
        Arc::make_mut(&mut world.snapshot.platform).ingress.model_routing =
            longboat_compose::platform::ModelRouting::Disabled;
    });
    assert_eq!(models(&off), Vec::<String>::new());
}

#[test]
fn a_match_that_cannot_be_changed_is_reported_and_the_previous_route_stays() {
    let own = |headers: Value| {
        let mut service = with_strategy("regex", service("m", &["a"]));
        service["spec"]["replicas"] = json!(2);
        service["spec"]["router"]["route"]["http"] = json!({"spec": {
            "parentRefs": [{"name": "gw", "namespace": "kserve"}],
            "rules": [{"name": "own", "matches": [{"headers": headers}]}],
        }});
        service
    };
    let advice = "; set spec.annotations[serving.kserve.io/lora-model-routing-strategy] to \"exact\" to route this service \
                  with Exact matches instead; any existing HTTPRoute keeps its previous matches";
    let start = "Failed to reconcile HTTPRoute: precondition not met: LoRA routing strategy \"regex\" cannot be applied: rule \
                 \"own\" match 0 ";
    let other = json!([{"name": "x-gateway-model-name", "value": "publishers/team/models/other"}]);
    let twice = json!([
        {"name": "X-Gateway-Model-Name", "value": "publishers/team/models/m"},
        {"name": "x-gateway-model-name", "value": "publishers/team/models/m"},
    ]);
    for (headers, problem) in [
        (
            other,
            "has an unrecognized X-Gateway-Model-Name match (type Exact, value \"publishers/team/models/other\"); expected \
             an Exact match on the base model identity \"publishers/team/models/m\"",
        ),
        (
            twice,
            "carries multiple case-equivalent X-Gateway-Model-Name headers; Gateway API only evaluates the first",
        ),
    ] {
        let mut world = settled(service("m", &["a"]), |_| ());
        let (before, writes) = (matches(&world), world.writes.len());
        world.put(own(headers), NAMESPACE);
        world.settle();
        let expected = ("RoutingPreconditionNotMet".to_owned(), format!("{start}{problem}{advice}"));
        assert_eq!(condition(&world), expected);
        assert_eq!(matches(&world), before);
        // The workload follows its spec all the same.
        assert_eq!(world.writes[writes..], ["Updated v1.Deployment team/llm-kserve"]);
    }
}

#[test]
fn more_exact_matches_than_a_rule_takes_are_refused_and_the_previous_route_stays() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let routed = |adapters: &[&str]| {
        let rule = |name: &str| {
            let of_model =
                json!({"headers": [{"name": "X-Gateway-Model-Name", "value": "publishers/team/models/m"}]});
            json!({"name": name, "matches": vec![of_model; 8]})
        };
        let mut service = service("m", adapters);
        service["spec"]["router"]["route"]["http"] =
            json!({"spec": {"parentRefs": [{"name": "gw", "namespace": "kserve"}], "rules": [rule("own")]}});
        service
    };
    let mut world = settled(routed(&names[..7]), |_| ());
    let before = matches(&world);
    assert_eq!(before, exact(&["m", "a", "b", "c", "d", "e", "f", "g"]));
    world.put(routed(&names), NAMESPACE);
    world.settle();
    let message = "Failed to reconcile HTTPRoute: precondition not met: LoRA routing strategy \"exact\" cannot be applied: rule \
                   \"own\" would have 72 matches, and the Gateway API takes 64, so 7 of the 8 LoRA adapters fit; set \
                   spec.annotations[serving.kserve.io/lora-model-routing-strategy] to \"regex\" to route this service with one \
                   RegularExpression match instead; any existing HTTPRoute keeps its previous matches";
    assert_eq!(condition(&world), ("RoutingPreconditionNotMet".to_owned(), message.to_owned()));
    assert_eq!(matches(&world), before);
}

#[test]
fn an_engine_that_does_not_serve_the_published_name_stays_out_of_routing_by_model() {
    let matched = |runtime: Option<&str>| {
        let mut service = plain();
        service["spec"]["model"] = json!({"uri": "hf://o/m", "name": "base"});
        service["spec"]["annotations"] = json!({"serving.kserve.io/model-based-routing-enabled": "true"});
        service["spec"]["runtime"] = json!(runtime);
        matches(&settled(service, |world| {
            for runtime in presets::runtimes().unwrap() {
                world.configs.insert(Layer::of_runtime(&runtime.metadata, &runtime.spec).unwrap());
            }
        }))
    };
    assert_eq!(matched(None), exact(&["base"]));
    assert_eq!(matched(Some("kserve-llm-sglang")), exact(&[]));
}
