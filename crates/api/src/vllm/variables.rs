//! The environment variables that vLLM reads.

use serde_json::Value;

use super::RECORDING;

/// Whether vLLM reads a variable.
pub fn is_known(name: &str) -> bool {
    RECORDING.variables.contains_key(name)
}

/// Returns what vLLM expects in place of a value that it refuses for a variable.
pub fn expected(name: &str, value: &str) -> Option<String> {
    let schema = RECORDING.variables.get(name)?;
    schema.mismatch(&Value::from(value)).map(|_| schema.expected())
}

/// Returns the variable that a misspelt one probably means.
pub fn nearest(name: &str) -> Option<&'static str> {
    longboat_key::nearest(RECORDING.variables.keys().map(String::as_str), name)
}

#[cfg(test)]
mod tests {
    use super::{expected, is_known, nearest};

    #[test]
    fn a_misspelt_variable_is_near_the_one_that_is_meant() {
        assert!(is_known("VLLM_LOGGING_LEVEL"));
        let misspelt = concat!("VLLM_", "LOGING_LEVEL");
        assert!(!is_known(misspelt));
        assert_eq!(nearest(misspelt), Some("VLLM_LOGGING_LEVEL"));
    }

    #[test]
    fn values_are_of_the_type_that_vllm_reads() {
        for (name, value, meant) in [
            ("VLLM_USE_DEEP_GEMM", "1", None),
            ("VLLM_USE_DEEP_GEMM", "true", Some("a whole number")),
            ("VLLM_USE_DEEP_GEMM", "", Some("a whole number")),
            ("VLLM_LOG_STATS_INTERVAL", "0.5", None),
            ("VLLM_LOG_STATS_INTERVAL", "5s", Some("a number")),
            ("VLLM_WORKER_MULTIPROC_METHOD", "spawn", None),
            ("VLLM_WORKER_MULTIPROC_METHOD", "thread", Some("one of \"fork\", \"spawn\"")),
            ("VLLM_HOST_IP", "anything", None),
        ] {
            assert_eq!(expected(name, value).as_deref(), meant, "{name}={value}");
        }
    }
}
