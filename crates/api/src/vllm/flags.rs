//! The flags of `vllm serve`.

use std::{collections::BTreeSet, sync::LazyLock};

use serde::Deserialize;

use super::{RECORDING, schema::Schema};

static NAMES: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    let flags = RECORDING.flags.iter();
    flags
        .flat_map(|(name, flag)| std::iter::once(name).chain(&flag.aliases))
        .map(String::as_str)
        .filter(|name| name.starts_with("--"))
        .collect()
});

/// A flag, with what its values are.
#[derive(Debug, Deserialize)]
pub struct Flag {
    aliases: Vec<String>,
    /// The values that this version knows. Empty if there is no list.
    pub choices: Vec<String>,
    /// Whether an empty value and the word None are values too.
    pub optional: bool,
    /// What one value is.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The bounds of its number, or what its JSON may be.
    pub schema: Schema,
    /// How many values it takes.
    pub values: Count,
}

/// What the value of a flag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Any text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// A whole number, or one with a unit: 4k, 4K.
    Size,
    /// The same, or `auto`.
    SizeOrAuto,
    /// JSON.
    Json,
    /// A JSON object.
    Object,
}

/// How many values a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Count {
    /// It is a switch.
    #[serde(rename = "0")]
    None,
    /// Exactly one.
    #[serde(rename = "1")]
    One,
    /// At most one.
    #[serde(rename = "?")]
    Optional,
    /// One or more.
    #[serde(rename = "+")]
    Some,
}

/// Returns the flag with this name, which may be shortened as long as it is clear.
pub fn find(name: &str) -> Option<(&'static str, &'static Flag)> {
    let name = if name.starts_with("--") { plain(name) } else { name.to_owned() };
    let named = |flag: &(&String, &Flag)| flag.0 == &name || flag.1.aliases.contains(&name);
    let found = RECORDING.flags.iter().find(named).or_else(|| {
        // Every flag begins with two dashes, which are no abbreviation.
        let begins = |known: &String| name.len() > 2 && name.starts_with("--") && known.starts_with(&name);
        let mut all =
            RECORDING.flags.iter().filter(|(known, flag)| begins(known) || flag.aliases.iter().any(begins));
        all.next().filter(|_| all.next().is_none())
    })?;
    Some((found.0.as_str(), found.1))
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

pub(super) fn plain(flag: &str) -> String {
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
        for (name, meant) in [
            ("-tp", Some("--tensor-parallel-size")),
            ("--no-enable-lora", Some("--enable-lora")),
            ("--gpu-memory-util", Some("--gpu-memory-utilization")),
            ("--max-num", None),
            ("-max-model-len", None),
        ] {
            assert_eq!(find(name).map(|(name, _)| name), meant, "{name}");
        }
        let (_, memory) = find("--gpu-memory-utilization").unwrap();
        assert_eq!((memory.kind, memory.values), (Kind::Number, Count::One));
        assert_eq!(memory.schema.bounds.broken(0.9), None);
        assert_eq!(memory.schema.bounds.broken(90.0).as_deref(), Some("above 0 and at most 1"));
        for (flag, meant) in [("--max-modle-len=8", Some("--max-model-len")), ("--time-to-first-token", None)]
        {
            assert!(!is_known(flag), "{flag}");
            assert_eq!(nearest(flag), meant, "{flag}");
        }
    }
}
