//! What is said about layers.

use serde_json::json;

use super::recordings::{config_set, service};
use crate::{
    Composer, Inputs, Layer, NoConfigMaps, PRESET_CONTAINER_REMOVED, Platform, PresetNames, presets,
};

/// The API server asks for `containers` wherever there is a pod, so this layer is one that was stored before it did, or by
/// somebody who goes around it. The tokenizer's is the one pod whose absent containers nobody fills in (contract 02 §3.2).
#[test]
fn a_layer_that_removes_a_presets_container_is_named() {
    let mut configs = config_set(&presets::builtin(&PresetNames::default(), "kserve").unwrap());
    let pod = json!({ "containers": null, "nodeSelector": { "zone": "a" } });
    let spec = json!({ "router": { "scheduler": { "tokenizer": { "template": pod } } } });
    configs.insert(Layer::from_spec("team", "n", spec).unwrap());
    let service = service(json!({
        "metadata": { "name": "s", "namespace": "n" },
        "spec": {
            "model": { "uri": "hf://a/b" },
            "baseRefs": [{ "name": "team" }],
            "router": { "route": {}, "scheduler": { "tokenizer": {} } },
        },
    }));
    let inputs = Inputs {
        service: &service,
        configs: &configs,
        config_maps: &NoConfigMaps,
        platform: &Platform::default(),
        system_namespace: "kserve",
        preset_names: &PresetNames::default(),
    };
    let composer = Composer::default();
    let effective = composer.compose(&inputs).unwrap();
    let said = composer.layer_warnings(&inputs, &effective);
    let removed: Vec<&str> = said
        .iter()
        .filter(|warning| warning.reason == PRESET_CONTAINER_REMOVED)
        .map(|warning| warning.message.as_str())
        .collect();
    assert_eq!(
        removed,
        ["container main of preset kserve-config-llm-tokenizer is gone from \
          spec.router.scheduler.tokenizer.template.containers: LLMInferenceServiceConfig n/team removes it"]
    );
}
