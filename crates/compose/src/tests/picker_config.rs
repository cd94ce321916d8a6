//! The presets for the picker: its configuration by version and shape, the scorer for adapters, and the latency predictor.

use longboat_api::v1alpha2::ConfigSource;
use serde_json::{Value, json};

use super::{
    merged::{compose, composed, configs},
    replay,
};
use crate::{ComposeError, ConfigSet, Effective};

/// The presets, with a scheduler preset that declares this version of the picker, and further fields of the scheduler.
#[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
fn with_version(version: Option<&str>, more: Value) -> ConfigSet {
    let main = json!({ "name": "main", "image": "epp" });
    let mut scheduler = json!({ "template": { "containers": [main] } });
    if let Some(version) = version {
        scheduler["annotations"] = json!({ "app.kubernetes.io/version": version });
    }
    for (field, value) in more.as_object().into_iter().flatten() {
        scheduler[field] = value.clone();
    }
    configs([("kserve", "kserve-config-llm-scheduler", json!({ "router": { "scheduler": scheduler } }))])
}

/// The suffixes of the presets of a service.
fn suffixes(effective: &Effective) -> Vec<String> {
    let presets = effective.applied.iter().filter(|config| matches!(config.source, ConfigSource::Preset));
    presets.map(|config| config.name.trim_start_matches("kserve-config-llm-").to_owned()).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
fn own(scheduler: Value) -> Value {
    json!({ "router": { "scheduler": scheduler } })
}

fn inline(effective: &Effective) -> Value {
    let spec = serde_json::to_value(&effective.spec).unwrap();
    spec.pointer("/router/scheduler/config/inline").cloned().unwrap_or_default()
}

#[test]
fn a_picker_of_0_11_gets_the_configuration_of_a_preset_above_that_of_the_scheduler() {
    let effective = composed(&with_version(Some("0.11.0"), json!({})), own(json!({ "tokenizer": {} })));
    assert_eq!(suffixes(&effective), ["scheduler", "scheduler-eppconfig-default", "tokenizer", "template"]);
    assert_eq!(
        inline(&effective),
        json!({
            "apiVersion": "llm-d.ai/v1",
            "kind": "EndpointPickerConfig",
            "plugins": [
                { "type": "approx-prefix-cache-producer" }, { "type": "inflight-load-producer" },
                { "type": "prefix-cache-affinity-filter" }, { "type": "token-load-scorer" },
            ],
            "schedulingProfiles": [{
                "name": "default",
                "plugins": [{ "pluginRef": "prefix-cache-affinity-filter" }, { "pluginRef": "token-load-scorer" }],
            }],
        })
    );
    let mut disaggregated = own(json!({}));
    disaggregated["prefill"] = json!({});
    let effective = composed(&with_version(Some("0.12.3"), json!({})), disaggregated);
    assert_eq!(
        suffixes(&effective),
        ["scheduler", "scheduler-eppconfig-default-pd", "prefill-template", "decode-template"]
    );
    let names: Vec<_> = inline(&effective)["schedulingProfiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    assert_eq!(names, ["prefill", "decode"]);
}

#[test]
fn older_and_unknown_versions_get_none() {
    for version in
        [None, Some(""), Some("0.10.9"), Some("v0.11.0"), Some("0.11"), Some("0.11.0-rc.1"), Some("main")]
    {
        let effective = composed(&with_version(version, json!({})), own(json!({})));
        assert_eq!(suffixes(&effective), ["scheduler", "template"], "{version:?}");
    }
    for version in ["0.11.0+build.1", "0.11.1-rc.1", "1.0.0"] {
        let effective = composed(&with_version(Some(version), json!({})), own(json!({})));
        assert!(suffixes(&effective).contains(&"scheduler-eppconfig-default".to_owned()), "{version}");
    }
    // The version counts that the scheduler preset itself declares.
    let annotated = own(json!({ "annotations": { "app.kubernetes.io/version": "0.11.0" } }));
    assert_eq!(
        suffixes(&composed(&with_version(Some("0.10.0"), json!({})), annotated)),
        ["scheduler", "template"]
    );
}

#[test]
fn a_configuration_of_the_service_or_of_the_scheduler_preset_stays() {
    let args =
        |flag: &str| json!({ "template": { "containers": [{ "name": "main", "args": [flag, "x"] }] } });
    let current = with_version(Some("0.11.0"), json!({}));
    let mut given = vec![json!({ "config": { "inline": { "kind": "EndpointPickerConfig" } } })];
    given
        .extend(["--config-text", "-configText", "--config-file", "-configFile", "--configText=x"].map(args));
    for scheduler in &given {
        let effective = composed(&current, own(scheduler.clone()));
        assert_eq!(suffixes(&effective), ["scheduler", "template"], "{scheduler}");
        let effective = composed(&with_version(Some("0.11.0"), scheduler.clone()), own(json!({})));
        assert_eq!(suffixes(&effective), ["scheduler", "template"], "{scheduler} in the preset");
    }
    let external = own(json!({ "pool": { "ref": { "name": "p" } } }));
    assert_eq!(suffixes(&composed(&current, external)), ["template"]);
}

#[test]
fn a_missing_preset_is_named() {
    let mut presets = with_version(Some("0.11.0"), json!({}));
    presets.remove(
        longboat_key::Namespace("kserve"),
        longboat_key::Name("kserve-config-llm-scheduler-eppconfig-default"),
    );
    let error = compose(&presets, own(json!({})), json!({})).unwrap_err();
    assert!(
        matches!(error, ComposeError::ConfigNotFound { name, .. } if name.ends_with("eppconfig-default"))
    );
}

#[test]
fn adapters_add_their_scorer_to_every_profile_of_the_preset() {
    let mut spec = own(json!({}));
    spec["model"] =
        json!({ "uri": "hf://a/b", "lora": { "adapters": [{ "name": "x", "uri": "hf://a/x" }] } });
    spec["prefill"] = json!({});
    let effective = composed(&with_version(Some("0.11.0"), json!({})), spec.clone());
    let config = inline(&effective);
    assert_eq!(
        config["plugins"].as_array().unwrap().last().unwrap(),
        &json!({ "type": "lora-affinity-scorer" })
    );
    for profile in config["schedulingProfiles"].as_array().unwrap() {
        let last = profile["plugins"].as_array().unwrap().last().unwrap();
        assert_eq!(last, &json!({ "pluginRef": "lora-affinity-scorer", "weight": 4 }));
    }
    assert_eq!(replay::faults(&effective), Vec::<String>::new());
    // A changed preset that has the scorer already keeps it, under its name.
    let mut changed = with_version(Some("0.11.0"), json!({}));
    let scorer = json!({ "type": "lora-affinity-scorer", "name": "lora" });
    let profile = json!({ "name": "a", "plugins": [{ "pluginRef": "lora", "weight": 1 }] });
    let other = json!({ "name": "b", "plugins": [] });
    let inline_config = json!({ "plugins": [scorer], "schedulingProfiles": [profile, other] });
    let layer = crate::Layer::from_spec(
        longboat_key::Key::new(
            longboat_key::Namespace("kserve"),
            longboat_key::Name("kserve-config-llm-scheduler-eppconfig-default-pd"),
        ),
        own(json!({ "config": { "inline": inline_config } })),
    );
    changed.insert(layer.unwrap());
    let config = inline(&composed(&changed, spec.clone()));
    assert_eq!(config["plugins"], json!([scorer]));
    assert_eq!(config["schedulingProfiles"][0], profile);
    assert_eq!(config["schedulingProfiles"][1]["plugins"], json!([{ "pluginRef": "lora", "weight": 4 }]));
    // An older picker's configuration is none of the preset's.
    assert_eq!(inline(&composed(&with_version(Some("0.10.0"), json!({})), spec)), Value::Null);
}

#[test]
fn only_a_service_that_pinned_the_latency_predictor_has_one() {
    let predicted =
        || own(json!({ "config": { "inline": { "plugins": [{ "type": "predicted-latency-producer" }] } } }));
    let fresh = composed(&configs([]), predicted());
    assert_eq!(suffixes(&fresh), ["scheduler", "template"]);
    let key = "serving.kserve.io/config-llm-scheduler-latency-predictor";
    assert!(!fresh.status_annotations.contains_key(key));
    let pins = json!({ key: "kserve-config-llm-scheduler-latency-predictor" });
    let pinned = compose(&configs([]), predicted(), pins).unwrap();
    assert_eq!(suffixes(&pinned), ["scheduler", "scheduler-latency-predictor", "template"]);
    assert_eq!(pinned.status_annotations[key], "kserve-config-llm-scheduler-latency-predictor");
    // The pin of another release names another object.
    let spec = json!({ "router": { "scheduler": { "template": { "containers": [{ "name": "old" }] } } } });
    let old = configs([("kserve", "old-config-llm-scheduler-latency-predictor", spec)]);
    let pinned =
        compose(&old, predicted(), json!({ key: "old-config-llm-scheduler-latency-predictor" })).unwrap();
    assert!(serde_json::to_string(&pinned.spec).unwrap().contains(r#""name":"old""#));
}
