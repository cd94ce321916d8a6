//! The CRDs by which users of a picker set priorities and rename models.

use serde_json::Value;

use super::vendored;

/// Returns the CRDs of InferenceObjective and InferenceModelRewrite, in the groups that llm-d's pickers read.
pub fn pickers() -> Vec<Value> {
    vendored::several(include_str!("pickers.yaml"))
}
