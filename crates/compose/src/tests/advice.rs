//! Warnings about layers.

use longboat_key::{Key, Name, Namespace};
use serde_json::{Value, json};

use super::recordings::{config_set, inputs, service};
use crate::{Composer, Layer, Platform, PresetNames, advice::PRESET_CONTAINER_REMOVED, presets};

/// Returns the warnings with a reason, for a service with the base config `n/team`.
fn said(reason: &str, team: Value, mut own: Value) -> Vec<String> {
    let mut configs = config_set(&presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap());
    configs.insert(Layer::from_spec(Key::new(Namespace("n"), Name("team")), team).unwrap());
    own["model"] = json!({ "uri": "hf://a/b" });
    own["baseRefs"] = json!([{ "name": "team" }]);
    let service = service(json!({ "metadata": { "name": "s", "namespace": "n" }, "spec": own }));
    let platform = Platform::default();
    let inputs = inputs(&service, &configs, &platform);
    let composer = Composer::default();
    let effective = composer.compose(&inputs).unwrap();
    let all = composer.layer_warnings(&inputs, &effective);
    all.into_iter().filter(|warning| warning.reason == reason).map(|warning| warning.message).collect()
}

/// The API server requires `containers` in every pod, so this layer was stored before that rule, or by bypassing it. The
/// tokenizer's pod is the only one in which nothing fills in missing containers.
#[test]
fn a_layer_that_removes_a_presets_container_is_named() {
    let pod = json!({ "containers": null, "nodeSelector": { "zone": "a" } });
    let team = json!({ "router": { "scheduler": { "tokenizer": { "template": pod } } } });
    let own = json!({ "router": { "route": {}, "scheduler": { "tokenizer": {} } } });
    assert_eq!(
        said(PRESET_CONTAINER_REMOVED, team, own),
        ["LLMInferenceServiceConfig n/team removes container main of preset kserve-config-llm-tokenizer \
          from spec.router.scheduler.tokenizer.template.containers"]
    );
}
