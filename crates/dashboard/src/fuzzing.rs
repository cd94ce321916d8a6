//! The parsers of outside bytes, for fuzzing.

use serde_json::Value;

use longboat_key::{Key, Name, Namespace};

use crate::{chat, cluster, metrics, objects};

/// Parses a metrics page. The results are numbers.
///
/// # Panics
///
/// If a result is NaN.
pub fn metrics(page: &str) {
    let sample = metrics::read(page);
    let numbers =
        [sample.waiting, sample.running, sample.kv_usage, sample.queries, sample.hits, sample.tokens];
    assert!(numbers.into_iter().all(|number| !number.is_nan()), "{sample:?}");
}

/// Parses the name of a service. A valid name can be part of a request path.
///
/// # Panics
///
/// If a valid name could lead to another path.
pub fn service_name(text: &str) {
    let Some(name) = cluster::parse_key(text) else { return };
    assert_eq!(name.to_string(), text);
    assert_eq!(text.matches('/').count(), 1, "{text}");
    assert!(!text.contains(['?', '#', '%', '\\', ' ']) && !text.starts_with('.'), "{text}");
}

/// Prepares a chat. A valid chat has a model and is streamed.
///
/// # Panics
///
/// If it has no model or is not streamed.
pub fn chat(body: &[u8]) {
    match chat::prepared(body, "model") {
        Ok(sent) => {
            let sent: Value = serde_json::from_str(&sent).unwrap_or_default();
            assert!(sent["stream"] == true && sent.get("model").is_some(), "{sent}");
        }
        Err(problem) => assert!(!problem.sentence.is_empty()),
    }
}

/// Parses an edited manifest. A valid manifest is the service that was edited.
///
/// # Panics
///
/// If it is another object.
pub fn manifest(text: &str) {
    let service = Key::new(Namespace("ns"), Name("a"));
    match objects::edited(&service, text) {
        Ok(object) => {
            assert_eq!(object.metadata.name.as_deref(), Some("a"));
            assert!(object.metadata.namespace.is_none_or(|namespace| namespace == "ns"));
        }
        Err(problem) => assert!(!problem.sentence.is_empty()),
    }
}
