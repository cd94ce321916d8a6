//! Recordings of a real API server: requests and responses.

use serde_json::Value;

use crate::{documents, part};

/// Returns a transcript, or an object that was used in one, by its path below `apiserver/`.
pub fn transcript(name: &str) -> Value {
    documents(&part("apiserver").join(name)).remove(0)
}

/// Returns field, reason and message of each cause in a recorded response, sorted.
pub fn answer_causes(response: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = response["body"]["details"]["causes"].as_array();
    let mut all: Vec<_> = causes
        .into_iter()
        .flatten()
        .map(|cause| (text(&cause["field"]), text(&cause["reason"]), text(&cause["message"])))
        .collect();
    all.sort();
    all
}
