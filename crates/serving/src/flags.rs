//! The command line of `vllm serve`.
//!
//! vLLM has hundreds of flags, and some take lists (`--served-model-name A B`), so this is not a clap parser. A server reads
//! the flags that it supports by name, and reports the others as ignored.

use std::{fmt::Display, str::FromStr};

use crate::Adapter;

/// Flags that take all words before the next flag. The last one is SGLang's name of `lora-modules`.
const LISTS: [&str; 4] = ["api-key", "served-model-name", "lora-modules", "lora-paths"];

/// A command line is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ArgsError {
    /// A flag lacks its value.
    #[error("flag `{0}` needs a value")]
    Missing(String),
    /// The value of a flag is invalid.
    #[error("flag `{flag}`: {reason}")]
    Invalid {
        /// The flag as written.
        flag: String,
        /// Why the value is invalid.
        reason: String,
    },
    /// Neither `--model` nor a positional model was given.
    #[error("no model given: use `vllm serve MODEL` or `--model MODEL`")]
    NoModel,
}

/// A parsed command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The words that do not belong to a flag.
    pub words: Vec<String>,
    /// The flags in their order. If a flag occurs several times, the last one counts.
    pub flags: Vec<Flag>,
}

/// A flag with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag's name without leading dashes, and with dashes instead of underscores.
    pub name: String,
    /// The flag as written.
    word: String,
    values: Vec<String>,
}

// === impl CommandLine ===

impl CommandLine {
    /// Parses arguments. Ignores empty ones, which presets contain if a template rendered to nothing.
    pub fn parse<S: AsRef<str>>(arguments: &[S]) -> Self {
        let mut parsed = Self::default();
        let mut words = arguments.iter().map(AsRef::as_ref).filter(|word| !word.is_empty()).peekable();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix("--") else {
                parsed.words.push(word.to_owned());
                continue;
            };
            // vLLM takes underscores and dashes for the same.
            let (name, mut inline) = match flag.split_once('=') {
                Some((name, value)) => (name.replace('_', "-"), Some(value.to_owned())),
                None => (flag.replace('_', "-"), None),
            };
            let mut values = Vec::new();
            // A flag after `=` has one value, as in Python's argparse.
            while inline.is_none()
                && let Some(value) = words.next_if(|next| !next.starts_with("--"))
            {
                values.push(value.to_owned());
                if !LISTS.contains(&name.as_str()) {
                    break;
                }
            }
            values.extend(inline.take());
            parsed.flags.push(Flag { name, word: word.to_owned(), values });
        }
        parsed
    }
}

// === impl Flag ===

impl Flag {
    /// Returns the flag's first value.
    pub fn text(&self) -> Result<&str, ArgsError> {
        self.values.first().map(String::as_str).ok_or_else(|| ArgsError::Missing(format!("--{}", self.name)))
    }

    /// Parses the flag's first value.
    pub fn value<T: FromStr<Err: Display>>(&self) -> Result<T, ArgsError> {
        let text = self.text()?;
        text.parse().map_err(|error| self.invalid(format!("`{text}`: {error}")))
    }

    /// Parses a number of at least 1.
    pub fn positive(&self) -> Result<usize, ArgsError> {
        match self.value()? {
            0 => Err(self.invalid("must be at least 1".into())),
            value => Ok(value),
        }
    }

    /// Returns all values.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }

    /// Returns all values, split at commas.
    pub fn names(&self) -> Vec<String> {
        let parts = self.values.iter().flat_map(|value| value.split(','));
        parts.filter(|name| !name.is_empty()).map(Into::into).collect()
    }

    /// Parses vLLM's `name=path` or its JSON form `{"name": …, "path": …}`.
    pub fn adapters(&self) -> Result<Vec<Adapter>, ArgsError> {
        let wrong = |value: &str| {
            self.invalid(format!("`{value}`: expected NAME=PATH, or JSON with `name` and `path`"))
        };
        // SGLang calls them `lora_name` and `lora_path`.
        let text = |json: &serde_json::Value, key: &str| {
            json[key].as_str().or_else(|| json[format!("lora_{key}")].as_str()).map(str::to_owned)
        };
        let adapter = |value: &String| match serde_json::from_str::<serde_json::Value>(value) {
            Ok(json) => match (text(&json, "name"), text(&json, "path")) {
                (Some(name), Some(path)) => Ok(Adapter { name, path, base: text(&json, "base_model_name") }),
                _ => Err(wrong(value)),
            },
            Err(_) => match value.split_once('=') {
                Some((name, path)) if !name.is_empty() && !path.is_empty() => {
                    Ok(Adapter { name: name.to_owned(), path: path.to_owned(), base: None })
                }
                _ => Err(wrong(value)),
            },
        };
        self.values.iter().map(adapter).collect()
    }

    /// Creates an error about the flag's value.
    pub fn invalid(&self, reason: String) -> ArgsError {
        ArgsError::Invalid { flag: self.word.clone(), reason }
    }
}
