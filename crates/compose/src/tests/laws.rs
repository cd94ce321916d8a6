//! Laws for any input.

use std::{collections::BTreeMap, sync::LazyLock};

use longboat_api::v1alpha2::{ConfigSource, LLMInferenceServiceConfig};
use longboat_key::Namespace;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    recordings::{config_set, inputs, service, with_configs},
    replay,
};
use crate::{Composer, ConfigSet, Effective, Platform, PresetNames, presets};

static CONFIGS: LazyLock<ConfigSet> =
    LazyLock::new(|| config_set(&presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap()));

fn run(spec: &Value, configs: &ConfigSet, composer: &Composer) -> Option<Effective> {
    let service = service(json!({ "metadata": { "name": "s", "namespace": "n" }, "spec": spec }));
    composer.compose(&inputs(&service, configs, &Platform::default())).ok()
}

/// Specs with lists of all kinds, and with strings that may be templates.
fn spec() -> impl Strategy<Value = Value> {
    let word = prop_oneof!["[a-c]", "[{}a. `\"-]{0,8}", Just("{{ .Name }}".to_owned())];
    let map = prop::collection::btree_map("[a-c]", word.clone(), 0..3);
    let env = prop::collection::vec(("[A-C]", word.clone()), 0..4);
    (
        map.clone(),
        map,
        env,
        prop::collection::vec(word, 0..3),
        prop::option::of(0..3_i32),
        prop::collection::vec(prop_oneof![Just("main"), Just("side")], 0..3),
        any::<(bool, bool, bool, bool)>(),
    )
        .prop_map(|(labels, node, env, args, replicas, names, (route, scheduler, prefill, tracing))| {
            let env: Vec<Value> =
                env.into_iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
            let containers: Vec<Value> = names
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .map(|name| json!({ "name": name, "env": env, "args": args }))
                .collect();
            let mut spec = json!({
                "model": { "uri": "hf://a/b" },
                "labels": labels,
                "template": { "containers": containers, "nodeSelector": node },
            });
            let mut set = |key: &str, on: bool, value: Value| {
                if on {
                    spec[key] = value;
                }
            };
            set("replicas", replicas.is_some(), json!(replicas));
            let mut router = BTreeMap::new();
            if route {
                router.insert("route", json!({}));
            }
            if scheduler {
                router.insert("scheduler", json!({}));
            }
            set("router", route || scheduler, json!(router));
            set("prefill", prefill, json!({}));
            set("tracing", tracing, json!({ "sampler": "x" }));
            spec
        })
}

/// Values that the schema does not check: a scheduler's configuration.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(|value| json!(value)),
        (-2..3_i32).prop_map(|value| json!(value)),
        prop_oneof!["[a-c]{0,2}", Just("{{ .ObjectMeta.Name }}".to_owned())].prop_map(|value| json!(value)),
    ];
    let value = leaf.prop_recursive(3, 12, 3, |inner| {
        let key = prop_oneof!["[ab]", Just("a.b/c".to_owned()), Just("x1".to_owned())];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            // Without null members. If an upper layer sets an object to null that contains another object, the merge leaves
            // an empty object, for which `provenance` names no layer yet.
            prop::collection::btree_map(key, inner, 0..3).prop_map(|mut map| {
                map.retain(|_, member: &mut Value| !member.is_null());
                json!(map)
            }),
        ]
    });
    prop::collection::btree_map("[ab]", value, 0..3).prop_map(|map| json!(map))
}

/// Routes with backends that composition rewrites, and others that it must not rewrite.
fn route() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("s-inference-pool".to_owned()),
        Just("{{ ChildName .ObjectMeta.Name `-inference-pool` }}".to_owned()),
        Just("{{ .ObjectMeta.Name }}".to_owned()),
        "[ab]",
    ];
    let kind = prop::option::of(prop_oneof![Just("InferencePool"), Just("Service")]);
    let group = prop::option::of(Just("inference.networking.k8s.io"));
    let backend = (name.clone(), kind, group).prop_map(|(name, kind, group)| {
        let mut backend = json!({ "name": name, "port": 8000, "weight": 1 });
        for (key, value) in [("kind", kind), ("group", group)] {
            if let Some(value) = value {
                backend[key] = json!(value);
            }
        }
        backend
    });
    let rule = (prop::collection::vec(backend, 0..3), "[ab]").prop_map(|(backends, header)| {
        json!({
            "matches": [{ "path": { "type": "Exact", "value": "/{{ .ObjectMeta.Name }}" } }],
            "filters": [{ "type": "RequestHeaderModifier", "requestHeaderModifier": { "set": [{ "name": header, "value": "{{ .ObjectMeta.Name }}" }] } }],
            "backendRefs": backends,
        })
    });
    (prop::collection::vec(rule, 0..3), prop::collection::vec(name, 0..3)).prop_map(|(rules, parents)| {
        let parents: Vec<Value> = parents.iter().map(|name| json!({ "name": name })).collect();
        json!({ "http": { "spec": { "rules": rules, "parentRefs": parents } } })
    })
}

/// Specs with the fields that composition reads after merging, and with fields of more than one type.
fn wide() -> impl Strategy<Value = Value> {
    let port = prop_oneof![(80..82_i32).prop_map(|port| json!(port)), Just(json!("http"))];
    let quantity = prop_oneof![Just(json!(1)), Just(json!("500m")), Just(json!("1000m")), Just(json!("1Gi"))];
    let gateways =
        prop::collection::vec(("[ab]", prop_oneof![Just(""), Just("infra")], prop::option::of("[ab]")), 0..3);
    let pool = prop_oneof![
        Just(json!({})),
        Just(json!({ "ref": { "name": "theirs" } })),
        Just(
            json!({ "spec": { "targetPorts": [{ "number": 8000 }], "selector": {}, "endpointPickerRef": { "name": "p" } } })
        ),
    ];
    let scheduler = prop::option::of((prop::option::of(anything()), prop::option::of(pool)));
    (spec(), prop::option::of(route()), scheduler, gateways, port, quantity, any::<bool>()).prop_map(
        |(mut spec, route, scheduler, gateways, port, quantity, tolerates)| {
            let mut router = serde_json::Map::new();
            if let Some(route) = route {
                router.insert("route".to_owned(), route);
            }
            if let Some((inline, pool)) = scheduler {
                let mut scheduler = json!({});
                if let Some(inline) = inline {
                    scheduler["config"] = json!({ "inline": inline });
                }
                if let Some(pool) = pool {
                    scheduler["pool"] = pool;
                }
                router.insert("scheduler".to_owned(), scheduler);
            }
            let gateways: Vec<Value> = gateways
                .into_iter()
                .map(|(name, namespace, section)| match section {
                    Some(section) => json!({ "name": name, "namespace": namespace, "sectionName": section }),
                    None => json!({ "name": name, "namespace": namespace }),
                })
                .collect();
            if !gateways.is_empty() {
                router.insert("gateway".to_owned(), json!({ "refs": gateways }));
            }
            if !router.is_empty() {
                spec["router"] = Value::Object(router);
            }
            if let Some(Value::Object(main)) = spec.pointer_mut("/template/containers/0") {
                main.insert("livenessProbe".to_owned(), json!({ "httpGet": { "path": "/", "port": port } }));
                main.insert("ports".to_owned(), json!([{ "containerPort": 8000 }, { "containerPort": 8001, "name": "a" }]));
                main.insert("resources".to_owned(), json!({ "limits": { "cpu": quantity } }));
            }
            if tolerates {
                spec["template"]["tolerations"] = json!([{ "key": "a" }, { "operator": "Exists" }]);
                spec["template"]["volumes"] = json!([{ "name": "v", "emptyDir": {} }, { "name": "w", "secret": { "secretName": "s" } }]);
            }
            spec
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn composing_is_deterministic_and_does_not_depend_on_what_was_composed_before(a in spec(), b in spec()) {
        let configs = &*CONFIGS;
        let warm = Composer::default();
        run(&b, configs, &warm);
        let first = run(&a, configs, &warm).map(|e| (e.spec, e.applied));
        let second = run(&a, configs, &Composer::default()).map(|e| (e.spec, e.applied));
        prop_assert_eq!(first, second);
    }

    #[test]
    fn replaying_the_provenance_of_layers_gives_the_spec(specs in prop::collection::vec(wide(), 3)) {
        let (own, configs) = based(specs);
        let Some(effective) = run(&own, &configs, &Composer::default()) else { return Ok(()) };
        prop_assert_eq!(effective.applied.iter().filter(|config| config.source == ConfigSource::UserRef).count(), 2);
        prop_assert_eq!(replay::faults(&effective), Vec::<String>::new());
    }

    #[test]
    fn every_leaf_has_an_origin(spec in spec()) {
        let Some(effective) = run(&spec, &CONFIGS, &Composer::default()) else { return Ok(()) };
        prop_assert_eq!(replay::faults(&effective), Vec::<String>::new());
    }
}

/// Returns a spec, and two base configs below it.
fn based(specs: Vec<Value>) -> (Value, ConfigSet) {
    let named = |name: &str, mut spec: Value| -> LLMInferenceServiceConfig {
        spec.as_object_mut().unwrap().remove("model");
        serde_json::from_value(json!({ "metadata": { "name": name, "namespace": "n" }, "spec": spec }))
            .unwrap()
    };
    let [mut own, team, size] = specs.try_into().unwrap();
    let bases = [("team", team), ("size", size)].into_iter().map(|(name, spec)| named(name, spec));
    let configs = with_configs(&CONFIGS, &bases.collect::<Vec<_>>());
    own["baseRefs"] = json!([{ "name": "team" }, { "name": "size" }]);
    (own, configs)
}
