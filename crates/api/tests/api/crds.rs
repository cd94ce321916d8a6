//! The generated CRDs.

use std::path::Path;

use longboat_api::crd::{self, Conversion};
use serde_json::{Value, json};

#[test]
fn the_files_are_what_the_types_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let documents: Vec<Value> =
        crd::own_with(&Conversion::default()).into_iter().chain(crd::foreign()).collect();
    for document in &documents {
        let path = folder.join(crd::file_name(document));
        let file = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            file == crd::to_yaml(document).unwrap(),
            "{} is not current: run `cargo run -p longboat-api --example crds`",
            path.display()
        );
    }
    let files = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(files, documents.len(), "deploy/crds holds a file that is not generated");
}

#[test]
fn clusters_convert_through_the_webhook_and_the_embedded_server_by_itself() {
    for crd in crd::own_with(&Conversion::default()) {
        let webhook = json!({
            "clientConfig": {"service": {
                "name": "llmisvc-webhook-server-service", "namespace": "kserve", "path": "/convert", "port": 443,
            }},
            "conversionReviewVersions": ["v1", "v1beta1"],
        });
        assert_eq!(crd["spec"]["conversion"], json!({"strategy": "Webhook", "webhook": webhook}));
    }
    for crd in crd::own() {
        assert_eq!(crd["spec"].get("conversion"), None);
    }
}
