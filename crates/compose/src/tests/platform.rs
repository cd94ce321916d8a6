//! What the platform's ConfigMap leaves out.

use std::collections::BTreeMap;

use crate::Platform;

fn initializer_image(storage: &str) -> String {
    let data = BTreeMap::from([
        ("ingress".to_owned(), r#"{"ingressGateway": "a/b"}"#.to_owned()),
        ("storageInitializer".to_owned(), storage.to_owned()),
    ]);
    Platform::parse(&data, "kserve").unwrap().storage.image
}

#[test]
fn a_storage_initializer_without_an_image_has_the_one_that_is_shipped() {
    let with = |image: &str| {
        let quantities =
            r#""cpuRequest": "1", "cpuLimit": "1", "memoryRequest": "1Gi", "memoryLimit": "1Gi""#;
        initializer_image(&format!("{{{image}{quantities}}}"))
    };
    assert_eq!(with(""), "kserve/storage-initializer:latest");
    assert_eq!(with(r#""image": "", "#), "kserve/storage-initializer:latest");
    assert_eq!(with(r#""image": "ours:1", "#), "ours:1");
}
