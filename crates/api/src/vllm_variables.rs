//! The environment variables that vLLM reads, as a vLLM printed them (`tests/vllm/names.rs` keeps the recording true).

use std::{collections::BTreeSet, sync::LazyLock};

use serde::Deserialize;

const RECORDING: &str = include_str!("../../../tests/vllm/names.json");

static VARIABLES: LazyLock<BTreeSet<String>> =
    LazyLock::new(|| serde_json::from_str::<Recording>(RECORDING).unwrap_or_default().variables);

#[derive(Default, Deserialize)]
struct Recording {
    variables: BTreeSet<String>,
}

/// Whether vLLM reads a variable.
pub fn is_known(name: &str) -> bool {
    VARIABLES.contains(name)
}

/// Returns the variable that a misspelt one probably means.
pub fn nearest(name: &str) -> Option<&'static str> {
    longboat_key::nearest(VARIABLES.iter().map(String::as_str), name)
}

#[cfg(test)]
mod tests {
    use super::{is_known, nearest};

    #[test]
    fn a_misspelt_variable_is_near_the_one_that_is_meant() {
        assert!(is_known("VLLM_LOGGING_LEVEL"));
        let misspelt = concat!("VLLM_", "LOGING_LEVEL");
        assert!(!is_known(misspelt));
        assert_eq!(nearest(misspelt), Some("VLLM_LOGGING_LEVEL"));
    }
}
