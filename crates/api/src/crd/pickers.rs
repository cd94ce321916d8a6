//! The CRDs by which users of a picker set priorities and rename models.

use serde_json::Value;

/// Returns the CRDs of InferenceObjective and InferenceModelRewrite, in the groups that llm-d's pickers read.
pub fn pickers() -> Vec<Value> {
    parsed(include_str!("pickers.yaml"))
}

fn parsed(documents: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(documents).expect("a test reads the embedded file")
}
