//! Missing values in the platform's ConfigMap.

use std::collections::BTreeMap;

use longboat_api::lora_routing::LoRaRoutingStrategy;
use longboat_key::Namespace;

use crate::{
    Platform,
    platform::{IMAGE, StorageInitializer},
};

fn initializer(storage: &str, longboat: Option<&str>) -> Result<StorageInitializer, String> {
    let mut data = BTreeMap::from([
        ("ingress".to_owned(), r#"{"ingressGateway": "a/b"}"#.to_owned()),
        ("storageInitializer".to_owned(), storage.to_owned()),
    ]);
    data.extend(longboat.map(|text| ("longboat".to_owned(), text.to_owned())));
    Platform::parse(&data, Namespace("kserve"))
        .map(|platform| platform.storage)
        .map_err(|error| error.to_string())
}

#[test]
fn a_storage_initializer_without_an_image_has_the_one_of_the_other_roles() {
    let with = |image: &str, longboat: Option<&str>| {
        let quantities =
            r#""cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Gi", "memoryLimit": "1Gi""#;
        let storage = initializer(&format!("{{{image}{quantities}}}"), longboat).unwrap();
        (storage.image, storage.ours)
    };
    let reference = Some(r#"{"image": "reference"}"#);
    assert_eq!(with("", None), (IMAGE.to_owned(), true));
    assert_eq!(with(r#""image": "", "#, None), (IMAGE.to_owned(), true));
    assert_eq!(with("", Some(r#"{"image": "r/l:1"}"#)), ("r/l:1".to_owned(), true));
    assert_eq!(with("", reference), ("kserve/storage-initializer:latest".to_owned(), false));
    for longboat in [None, reference] {
        assert_eq!(with(r#""image": "theirs:1", "#, longboat), ("theirs:1".to_owned(), false));
    }
}

#[test]
fn a_storage_initializer_without_a_memory_limit_has_what_its_image_needs() {
    let limit = |image: &str| {
        let storage = format!(r#"{{{image}"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Mi"}}"#);
        initializer(&storage, None).unwrap().memory_limit
    };
    assert_eq!(limit(""), "100Mi");
    assert_eq!(limit(r#""image": "theirs:1", "#), "1Gi");
    let large = r#"{"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "200Mi"}"#;
    assert_eq!(initializer(large, None).unwrap().memory_limit, "200Mi", "never below the request");
    let error = initializer("{}", None).unwrap_err();
    assert!(error.contains("memoryRequest"), "{error}");
}

#[test]
fn downloads_are_asked_at_a_port_that_anybody_may_listen_on_or_not_at_all() {
    let port = |longboat: &str| {
        let storage = r#"{"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Mi"}"#;
        let data = [("longboat", longboat), ("storageInitializer", storage)];
        let data = data.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
        Platform::parse(&data, Namespace("kserve")).map(|platform| platform.download_progress_port)
    };
    assert_eq!(port("{}").unwrap(), None);
    assert_eq!(port(r#"{"downloadProgressPort": 9418}"#).unwrap(), Some(9418));
    for wrong in ["0", "80", "70000", "-1", r#""http""#] {
        let error = port(&format!(r#"{{"downloadProgressPort": {wrong}}}"#)).unwrap_err().to_string();
        assert!(error.contains("longboat") && error.contains(wrong.trim_matches('"')), "{error}");
    }
}

#[test]
fn a_strategy_of_lora_routing_that_does_not_exist_fails_all_settings() {
    let strategy = |value: &str| {
        let storage = r#"{"cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Mi"}"#;
        let ingress = format!(r#"{{"ingressGateway": "a/b"{value}}}"#);
        let data = [("ingress", ingress.as_str()), ("storageInitializer", storage)];
        let data = data.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
        Platform::parse(&data, Namespace("kserve"))
            .map(|platform| platform.ingress.lora_routing)
            .map_err(|error| error.to_string())
    };
    for (value, expected) in [
        ("", LoRaRoutingStrategy::Exact),
        (r#", "loraModelRoutingStrategy": """#, LoRaRoutingStrategy::Exact),
        (r#", "loraModelRoutingStrategy": "Exact""#, LoRaRoutingStrategy::Exact),
        (r#", "loraModelRoutingStrategy": "REGEX""#, LoRaRoutingStrategy::Regex),
    ] {
        assert_eq!(strategy(value), Ok(expected), "{value}");
    }
    assert_eq!(
        strategy(r#", "loraModelRoutingStrategy": "regexp""#).unwrap_err(),
        "failed to load ingress config: failed to convert InferenceServiceConfigMap to IngressConfig: invalid ingress config - \
         unsupported loraModelRoutingStrategy \"regexp\" from the inferenceservice-config ConfigMap: supported values are \
         \"exact\" and \"regex\""
    );
}
