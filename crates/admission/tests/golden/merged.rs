//! The check of merged specs without a server gives the same result as a server.

use longboat_admission::{Facts, MergedSpecs};
use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use serde_json::{Value, json};

use crate::{
    folder::{entries, repository, say},
    server::Server,
};

/// The specs of all services in our cases that can be deserialized, like every merged spec.
fn specs() -> Vec<(String, LLMInferenceServiceSpec)> {
    let mut found = Vec::new();
    for kind in ["validation", "schema"] {
        for case in entries(&repository().join("tests/cases").join(kind)) {
            let files = if case.is_dir() { entries(&case) } else { vec![case] };
            for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "yaml")) {
                let text = std::fs::read_to_string(file).unwrap();
                let objects =
                    text.split("\n---\n").filter_map(|text| serde_saphyr::from_str::<Value>(text).ok());
                for object in objects.filter(|object| object["kind"] == "LLMInferenceService") {
                    if let Ok(spec) = serde_json::from_value(object["spec"].clone()) {
                        found.push((file.display().to_string(), spec));
                    }
                }
            }
        }
    }
    found
}

/// Field and message of each cause about the spec. A group also becomes a label, about which there is another cause.
fn causes(status: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = status["details"]["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let causes = causes.iter().map(|cause| (text(&cause["field"]), text(&cause["message"])));
    causes.filter(|(field, _)| !field.starts_with("metadata.")).collect()
}

#[tokio::test]
async fn merged_specs_are_refused_as_a_server_refuses_them() {
    let server = Server::start(Facts::default()).await;
    server.namespace("merged").await;
    let judge = MergedSpecs::default();
    let (mut accepted, mut refused, mut different) = (0, 0, Vec::new());
    for (place, spec) in specs() {
        let object = json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"generateName": "llm-kserve-validation-"}, "spec": spec,
        });
        let reply = server.create("merged", &object).await;
        let rejection = judge.rejection(&spec);
        let (theirs, ours) = (causes(&reply.body), rejection.map(|found| found.causes));
        match (reply.code, ours) {
            (201, None) => accepted += 1,
            // A webhook runs before the schema check, and cannot decode what the schema refuses with a better message.
            (400, Some(_)) => refused += 1,
            (422, Some(ours)) if ours == theirs => refused += 1,
            (code, ours) => {
                different.push(format!("{place}: a server {code} {theirs:#?}, without one {ours:#?}"));
            }
        }
    }
    say(&format!("merged specs: {accepted} accepted and {refused} refused, as by a server"));
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(accepted > 50 && refused > 50, "{accepted} accepted, {refused} refused: too few to tell");
}
