//! What the newest vLLM has besides what is recorded (`tests/vllm/newest.json`). It has no build for a CPU, which the tests could run.

use std::{collections::BTreeSet, sync::LazyLock};

use serde::Deserialize;

const TEXT: &str = include_str!("../../../../tests/vllm/newest.json");

static NEWEST: LazyLock<Newest> = LazyLock::new(|| serde_json::from_str(TEXT).unwrap_or_default());

#[derive(Default, Deserialize)]
struct Newest {
    version: String,
    flags: BTreeSet<String>,
    variables: BTreeSet<String>,
}

/// The newest version.
pub fn version() -> &'static str {
    &NEWEST.version
}

/// Whether a flag is new in it: with or without a value, with underscores or dashes, or with the key of a JSON value.
pub fn has_flag(flag: &str) -> bool {
    NEWEST.flags.contains(&super::flags::plain(flag))
}

/// Whether a variable is new in it.
pub fn has_variable(name: &str) -> bool {
    NEWEST.variables.contains(name)
}

#[cfg(test)]
mod tests {
    use super::{NEWEST, has_flag, version};
    use crate::vllm::{self, flags, variables};

    #[test]
    fn what_is_new_is_not_recorded_yet() {
        assert_ne!(version(), vllm::version());
        for flag in &NEWEST.flags {
            assert_ne!(flags::find(flag).map(|(name, _)| name), Some(flag.as_str()));
        }
        for variable in &NEWEST.variables {
            assert!(!variables::is_known(variable), "{variable}");
        }
    }

    #[test]
    fn new_flags_are_found_in_the_forms_that_vllm_takes() {
        for flag in ["--watchdog-config", "--watchdog_config={}", "--watchdog-config.a=1", "--disable-lora"] {
            assert!(has_flag(flag), "{flag}");
        }
        assert!(!has_flag("--watchdog"));
    }
}
