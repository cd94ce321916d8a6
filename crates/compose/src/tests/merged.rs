//! Templates see the merged spec: what only a base config or a preset sets reaches the command line.

use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_key::{Key, Name, Namespace};
use serde_json::{Value, json};

use super::recordings::{config_set, inputs, service};
use crate::{ComposeError, Composer, ConfigSet, Effective, Layer, Platform, PresetNames, presets};

/// This build's presets, and further configs.
pub(super) fn configs<'a>(more: impl IntoIterator<Item = (&'a str, &'a str, Value)>) -> ConfigSet {
    let mut configs = config_set(&presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap());
    for (namespace, name, spec) in more {
        configs.insert(Layer::from_spec(Key::new(Namespace(namespace), Name(name)), spec).unwrap());
    }
    configs
}

/// Composes service `s` of namespace `n`, with these pins in its status.
#[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
pub(super) fn compose(configs: &ConfigSet, mut spec: Value, pins: Value) -> Result<Effective, ComposeError> {
    if spec.get("model").is_none() {
        spec["model"] = json!({ "uri": "hf://a/b" });
    }
    let metadata = json!({ "name": "s", "namespace": "n" });
    let service = service(json!({ "metadata": metadata, "spec": spec, "status": { "annotations": pins } }));
    Composer::default().compose(&inputs(&service, configs, &Platform::default()))
}

/// Composes service `s` of namespace `n`, which is new.
pub(super) fn composed(configs: &ConfigSet, spec: Value) -> Effective {
    compose(configs, spec, json!({})).unwrap()
}

/// The start script of the main container of a pod.
fn script(spec: &LLMInferenceServiceSpec, pod: &str) -> String {
    let spec = serde_json::to_value(spec).unwrap();
    let containers = spec.pointer(pod).and_then(|pod| pod["containers"].as_array()).unwrap();
    let main = containers.iter().find(|container| container["name"] == "main").unwrap();
    main["command"][2].as_str().unwrap().to_owned()
}

#[test]
fn what_only_a_base_config_sets_reaches_the_command_line() {
    let team = json!({
        "model": { "name": "renamed", "uri": "" },
        "parallelism": { "tensor": 4 },
        "prefill": { "parallelism": { "tensor": 2 } },
        "template": { "containers": [], "terminationGracePeriodSeconds": 300 },
    });
    let spec = composed(&configs([("n", "team", team)]), json!({ "baseRefs": [{ "name": "team" }] })).spec;
    let decode = script(&spec, "/template");
    for part in ["--served-model-name renamed ", "--tensor-parallel-size 4 ", "--shutdown-timeout 280"] {
        assert!(decode.contains(part), "{part}: {decode}");
    }
    let prefill = script(&spec, "/prefill/template");
    assert!(prefill.contains("--tensor-parallel-size 2 "), "{prefill}");
}

#[test]
fn the_name_of_the_model_comes_from_the_last_base_config_that_has_one() {
    let named = |name: &str| json!({ "model": { "name": name, "uri": "" } });
    let nameless = json!({ "parallelism": { "tensor": 2 } });
    let configs =
        configs([("n", "first", named("a")), ("n", "second", named("b")), ("n", "third", nameless)]);
    let origin = |bases: &[&str]| {
        let bases: Vec<_> = bases.iter().map(|name| json!({ "name": name })).collect();
        let effective = composed(&configs, json!({ "baseRefs": bases }));
        effective.provenance().get("model.name").unwrap().origin.to_string()
    };
    assert_eq!(origin(&["first", "second", "third"]), "LLMInferenceServiceConfig n/second");
    assert_eq!(origin(&["third"]), "the service");
}

#[test]
fn the_service_wins_over_its_base_configs_on_the_command_line_too() {
    let team = json!({ "parallelism": { "tensor": 4 } });
    let own = json!({ "baseRefs": [{ "name": "team" }], "parallelism": { "tensor": 8 } });
    let spec = composed(&configs([("n", "team", team)]), own).spec;
    assert!(script(&spec, "/template").contains("--tensor-parallel-size 8 "));
}

/// A template in a field that other templates read is read as text, as in the reference.
#[test]
fn a_template_is_rendered_once() {
    let team = json!({ "labels": { "a": "{{ .ObjectMeta.Name }}", "b": "{{ index .Spec.Labels `a` }}" } });
    let spec = composed(&configs([("n", "team", team)]), json!({ "baseRefs": [{ "name": "team" }] })).spec;
    let labels = serde_json::to_value(&spec).unwrap()["labels"].clone();
    assert_eq!(labels, json!({ "a": "s", "b": "{{ .ObjectMeta.Name }}" }));
}

#[test]
fn a_template_in_the_name_of_the_model_is_rendered_before_those_that_read_it() {
    let team = json!({ "model": { "name": "{{ .ObjectMeta.Name }}-x", "uri": "" } });
    let own = json!({ "baseRefs": [{ "name": "team" }], "router": { "route": {}, "scheduler": {} } });
    let spec = composed(&configs([("n", "team", team)]), own).spec;
    assert_eq!(spec.model.name.as_deref(), Some("s-x"));
    assert!(script(&spec, "/template").contains("--served-model-name s-x "));
    assert!(!serde_json::to_string(&spec.router).unwrap().contains("{{"));

    let broken = json!({ "model": { "name": "{{ .Nothing }}", "uri": "" } });
    let own = json!({ "baseRefs": [{ "name": "team" }] });
    let error = compose(&configs([("n", "team", broken)]), own, json!({})).unwrap_err();
    assert!(matches!(&error, ComposeError::TemplateExecution(text) if text.contains(".Nothing")), "{error}");
}
