//! The readers of outside bytes, for fuzzing.

use serde_json::Value;

use crate::{ServiceName, chat, metrics, objects};

/// A metrics page gives finite numbers.
///
/// # Panics
/// When it gives others.
pub fn metrics(page: &str) {
    let sample = metrics::read(page);
    let numbers =
        [sample.waiting, sample.running, sample.kv_usage, sample.queries, sample.hits, sample.tokens];
    assert!(numbers.into_iter().all(|number| !number.is_nan()), "{sample:?}");
}

/// The name of a service is refused, or can stand in the path of a request.
///
/// # Panics
/// When it could lead elsewhere.
pub fn service_name(text: &str) {
    let Some(name) = ServiceName::parse(text) else { return };
    assert_eq!(name.to_string(), text);
    assert_eq!(text.matches('/').count(), 1, "{text}");
    assert!(!text.contains(['?', '#', '%', '\\', ' ']) && !text.starts_with('.'), "{text}");
}

/// A chat is refused with a sentence, or is sent with a model and streamed.
///
/// # Panics
/// When it is neither.
pub fn chat(body: &[u8]) {
    match chat::prepared(body, "model") {
        Ok(sent) => {
            let sent: Value = serde_json::from_str(&sent).unwrap_or_default();
            assert!(sent["stream"] == true && sent.get("model").is_some(), "{sent}");
        }
        Err(problem) => assert!(!problem.sentence.is_empty()),
    }
}

/// An edited manifest is refused with a sentence, or is the service that was edited.
///
/// # Panics
/// When it is another object.
pub fn manifest(text: &str) {
    let service = ServiceName { namespace: "ns".to_owned(), name: "a".to_owned() };
    match objects::edited(&service, text) {
        Ok(object) => {
            assert_eq!(object.metadata.name.as_deref(), Some("a"));
            assert!(object.metadata.namespace.is_none_or(|namespace| namespace == "ns"));
        }
        Err(problem) => assert!(!problem.sentence.is_empty()),
    }
}
