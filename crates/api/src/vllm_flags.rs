//! The flags of `vllm serve`, as a vLLM printed them (`tests/vllm/flags.rs` keeps the recording true).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use serde::Deserialize;

const RECORDING: &str = include_str!("../../../tests/vllm/flags.json");

static RECORDED: LazyLock<Recording> = LazyLock::new(|| serde_json::from_str(RECORDING).unwrap_or_default());

static NAMES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    let flags = RECORDED.flags.iter();
    flags
        .flat_map(|(name, flag)| std::iter::once(name).chain(&flag.aliases))
        .map(String::as_str)
        .filter(|name| name.starts_with("--"))
        .collect()
});

#[derive(Default, Deserialize)]
struct Recording {
    version: String,
    flags: BTreeMap<String, Aliases>,
}

#[derive(Deserialize)]
struct Aliases {
    aliases: Vec<String>,
}

/// The version of vLLM of which the flags are.
pub fn version() -> &'static str {
    &RECORDED.version
}

/// Whether vLLM knows a flag: with or without a value, with underscores or dashes, shortened, or with the key of a JSON value.
pub fn is_known(flag: &str) -> bool {
    let name = plain(flag);
    // The first name at or after a shortened one begins with it.
    NAMES.range(name.as_str()..).next().is_some_and(|known| known.starts_with(&name))
}

/// Returns the flag that a misspelt one probably means.
pub fn nearest(flag: &str) -> Option<&'static str> {
    longboat_key::nearest(NAMES.iter().copied(), &plain(flag))
}

fn plain(flag: &str) -> String {
    flag.split(['=', '.']).next().unwrap_or_default().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_known_in_the_forms_that_vllm_takes() {
        for flag in [
            "--max-model-len",
            "--max_model_len=8",
            "--no-enable-lora",
            "--tensor-parallel",
            "--hf-overrides.a.b=1",
        ] {
            assert!(is_known(flag), "{flag}");
        }
        for (flag, meant) in [("--max-modle-len=8", Some("--max-model-len")), ("--time-to-first-token", None)]
        {
            assert!(!is_known(flag), "{flag}");
            assert_eq!(nearest(flag), meant, "{flag}");
        }
        assert!(!version().is_empty());
    }
}
