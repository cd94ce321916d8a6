//! The images in the presets.

use std::collections::{BTreeMap, BTreeSet};

use longboat_key::Namespace;
use serde_json::{Value, json};

use super::recordings::{config_set, inputs, service};
use crate::{
    Platform, PresetNames, compose,
    platform::{IMAGE, Images},
    presets,
};

/// Returns all images of a service that has every part, by container.
fn images(platform: &Platform) -> BTreeMap<String, String> {
    let service = service(json!({
        "metadata": { "name": "s", "namespace": "n" },
        "spec": {
            "model": { "uri": "hf://a/b", "name": "b" },
            "prefill": {},
            "router": { "route": {}, "gateway": {}, "scheduler": { "tokenizer": {} } },
        },
    }));
    let effective = compose(&inputs(
        &service,
        &config_set(&presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap()),
        platform,
    ));
    let mut found = BTreeMap::new();
    collect(&serde_json::to_value(effective.unwrap().spec).unwrap(), "", &mut found);
    found
}

fn collect(json: &Value, path: &str, found: &mut BTreeMap<String, String>) {
    match json {
        Value::Object(map) => {
            if let (Some(Value::String(name)), Some(Value::String(image))) =
                (map.get("name"), map.get("image"))
            {
                found.insert(format!("{path}/{name}"), image.clone());
            }
            map.iter().for_each(|(key, value)| collect(value, &format!("{path}/{key}"), found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, path, found)),
        _ => {}
    }
}

fn platform(longboat: Option<&str>) -> Result<Platform, String> {
    let data = longboat.map(|text| ("longboat".to_owned(), text.to_owned()));
    let storage = r#"{"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Gi", "memoryLimit": "1Gi"}"#;
    let data = data.into_iter().chain([("storageInitializer".to_owned(), storage.to_owned())]).collect();
    Platform::parse(&data, Namespace("kserve")).map_err(|error| error.to_string())
}

const PICKER: &str = "/router/scheduler/template/containers/main";
const SIDECAR: &str = "/template/initContainers/llm-d-routing-sidecar";

#[test]
fn roles_of_this_build_have_its_image_and_one_setting_gives_them_the_references() {
    let ours = images(&platform(None).unwrap());
    let theirs = images(&platform(Some(r#"{"image": "reference"}"#)).unwrap());
    assert_eq!((ours[PICKER].as_str(), ours[SIDECAR].as_str()), (IMAGE, IMAGE));
    assert_eq!(theirs[PICKER], "ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0");
    assert_eq!(theirs[SIDECAR], "ghcr.io/llm-d/llm-d-router-disagg-sidecar:v0.10.0");
    let changed: BTreeSet<&str> = ours
        .iter()
        .filter(|(place, image)| theirs[*place] != **image)
        .map(|(place, _)| place.as_str())
        .collect();
    assert_eq!(changed, BTreeSet::from([PICKER, SIDECAR]), "engines, tokenizers and predictors are not ours");
    assert_eq!(platform(None).unwrap(), platform(Some("{}")).unwrap());
}

#[test]
fn the_same_setting_names_a_copy_in_another_registry() {
    let mirrored = images(&platform(Some(r#"{"image": "registry.example/longboat:v1"}"#)).unwrap());
    assert_eq!(mirrored[PICKER], "registry.example/longboat:v1");
    assert_eq!(mirrored[SIDECAR], "registry.example/longboat:v1");
    assert_eq!(Platform::default().images, Images::Ours(IMAGE.to_owned()));
}

#[test]
fn a_setting_that_names_no_image_is_refused() {
    let error = platform(Some(r#"{"image": "the reference"}"#)).unwrap_err();
    assert!(error.contains("expected an image, or \"reference\""), "{error}");
    let error = platform(Some(r#"{"images": "reference"}"#)).unwrap_err();
    assert!(error.contains("unknown field `images`, expected one of `image`"), "{error}");
}
