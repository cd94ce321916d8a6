//! Laws that hold for any input.

use std::{collections::BTreeMap, sync::LazyLock};

use longboat_api::v1alpha2::{ConfigSource, LLMInferenceServiceConfig};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    recordings::{config_set, service, with_configs},
    replay,
};
use crate::{Composer, ConfigSet, Effective, Inputs, NoConfigMaps, Platform, PresetNames, compose, presets};

static CONFIGS: LazyLock<ConfigSet> =
    LazyLock::new(|| config_set(&presets::builtin(&PresetNames::default(), "kserve").unwrap()));

fn run(spec: &Value, configs: &ConfigSet, composer: &Composer) -> Option<Effective> {
    let service = service(json!({ "metadata": { "name": "s", "namespace": "n" }, "spec": spec }));
    composer
        .compose(&Inputs {
            service: &service,
            configs,
            config_maps: &NoConfigMaps,
            platform: &Platform::default(),
            system_namespace: "kserve",
            preset_names: &PresetNames::default(),
        })
        .ok()
}

/// Specs that touch lists of all kinds, and text that may be a template.
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
    fn replaying_the_provenance_of_layers_gives_the_spec(specs in prop::collection::vec(spec(), 3)) {
        let named = |name: &str, mut spec: Value| -> LLMInferenceServiceConfig {
            spec.as_object_mut().unwrap().remove("model");
            serde_json::from_value(json!({ "metadata": { "name": name, "namespace": "n" }, "spec": spec })).unwrap()
        };
        let [mut own, team, size] = specs.try_into().unwrap();
        let bases = [("team", team), ("size", size)].into_iter().map(|(name, spec)| named(name, spec));
        let configs = with_configs(&CONFIGS, &bases.collect::<Vec<_>>());
        own["baseRefs"] = json!([{ "name": "team" }, { "name": "size" }]);
        let Some(effective) = run(&own, &configs, &Composer::default()) else { return Ok(()) };
        prop_assert_eq!(effective.applied.iter().filter(|config| config.source == ConfigSource::UserRef).count(), 2);
        prop_assert_eq!(replay::faults(&effective), Vec::<String>::new());
    }

    #[test]
    fn every_leaf_has_an_origin_and_rendering_by_leaf_is_rendering_the_whole(spec in spec()) {
        let configs = &*CONFIGS;
        let Some(effective) = run(&spec, configs, &Composer::default()) else { return Ok(()) };
        prop_assert_eq!(replay::faults(&effective), Vec::<String>::new());

        // An action in the metadata makes the whole document one template.
        let mut templated = service(json!({ "metadata": { "name": "s", "namespace": "n" }, "spec": spec }));
        templated.metadata.annotations = Some([("a".to_owned(), "{{ 1 }}".to_owned())].into());
        let whole = compose(&Inputs {
            service: &templated,
            configs,
            config_maps: &NoConfigMaps,
            platform: &Platform::default(),
            system_namespace: "kserve",
            preset_names: &PresetNames::default(),
        });
        prop_assert_eq!(effective.spec, whole.unwrap().spec);
    }
}
