//! The flags that `vllm serve` knows.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;

const TEXT: &str = include_str!("../../../../tests/vllm/flags.json");

/// A flag of `vllm serve`, as `tests/vllm/flags.py` finds it in its parser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// Other names.
    pub aliases: Vec<String>,
    /// The least and the greatest value: `ge`, `gt`, `le`, `lt`.
    pub bounds: BTreeMap<String, Value>,
    /// The allowed values, if there is a list of them.
    pub choices: Vec<String>,
    /// The fields of its JSON, if it has those of one class of settings and no others.
    pub fields: Vec<String>,
    /// The default.
    pub default: String,
    /// Whether it also takes an empty value, and the word None.
    pub optional: bool,
    /// What a value is: `text`, `integer`, `number`, `size`, `size_or_auto`, `json` or `object` (a JSON object).
    pub r#type: String,
    /// How many values it takes: `0`, `1`, `?` or `+`.
    pub values: String,
}

/// The version of vLLM of which the flags are, and the flags by name.
#[derive(Debug, Deserialize)]
pub struct Flags {
    /// The version.
    pub version: String,
    /// The flags.
    pub flags: BTreeMap<String, Flag>,
}

// === impl Flags ===

impl Flags {
    /// Reads the flags in the repository.
    pub fn committed() -> Self {
        serde_json::from_str(TEXT).unwrap_or_else(|error| panic!("tests/vllm/flags.json: {error}"))
    }

    /// Returns the flag with this name, with underscores or dashes as vLLM takes both.
    pub fn find(&self, name: &str) -> Option<&Flag> {
        let name = name.replace('_', "-");
        let has = |flag: &&Flag| flag.aliases.contains(&name);
        self.flags.get(&name).or_else(|| self.flags.values().find(has))
    }
}

/// Returns the text of the file for the flags of this version.
pub fn write_flags(version: &str, flags: &BTreeMap<String, Flag>) -> String {
    let mut file = format!("{{\n\"version\": {},\n\"flags\": {{", Value::from(version));
    for (position, (name, flag)) in flags.iter().enumerate() {
        let comma = if position == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ =
            write!(file, "{comma}\n{}: {}", Value::from(name.as_str()), serde_json::to_value(flag).unwrap());
    }
    file + "\n}\n}\n"
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;
    use crate::vllm::texts::texts;

    /// Collects the containers that start vLLM, in whatever they are part of.
    fn servers(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| servers(item, found)),
            Value::Object(fields) => {
                let words = |field: &str| -> Vec<&str> {
                    value[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
                };
                let (command, args) = (words("command"), words("args"));
                if command.iter().any(|word| word.contains("vllm serve") || word.contains("vllm launch")) {
                    let variables = value["env"].as_array().into_iter().flatten();
                    let more = variables.filter(|variable| variable["name"] == "VLLM_ADDITIONAL_ARGS");
                    let more = more.filter_map(|variable| variable["value"].as_str());
                    found.push(command.into_iter().chain(args).chain(more).collect::<Vec<_>>().join("\n"));
                }
                fields.values().for_each(|field| servers(field, found));
            }
            _ => {}
        }
    }

    #[test]
    fn vllm_knows_every_flag_that_presets_and_planning_pass() {
        let mut found = Vec::new();
        // The presets, and what planning makes of them: adapters, traces, transfer and offloading of KV caches.
        for folder in ["presets", "tests/cases/compose"] {
            let before = found.len();
            for (_, text) in texts(&[folder])
                .iter()
                .filter(|(path, _)| Path::new(path).extension().is_some_and(|extension| extension == "yaml"))
            {
                for document in text.split("\n---\n").filter(|text| !text.trim().is_empty()) {
                    servers(&serde_saphyr::from_str(document).unwrap(), &mut found);
                }
            }
            assert!(found.len() > before, "no vLLM in {folder}");
        }
        let known = Flags::committed();
        let (mut passed, mut unknown) = (BTreeSet::new(), BTreeSet::new());
        for script in found {
            let words: Vec<&str> = script.split(|c: char| c.is_whitespace() || "\"'*=".contains(c)).collect();
            for (position, word) in
                words.iter().enumerate().filter(|(_, word)| word.starts_with("--") && word.len() > 2)
            {
                // `vllm --version` is another command.
                if position > 0 && words[position - 1].ends_with("vllm") {
                    continue;
                }
                passed.insert((*word).to_owned());
                match known.find(word) {
                    None => unknown.extend([(*word).to_owned()]),
                    Some(flag) if !flag.choices.is_empty() => {
                        let value = words.get(position + 1).copied().unwrap_or_default();
                        if !flag.choices.iter().any(|choice| choice == value) {
                            unknown.insert(format!("{word} {value}"));
                        }
                    }
                    Some(_) => {}
                }
            }
        }
        assert_eq!(unknown, BTreeSet::new(), "vLLM {} does not know these", known.version);
        for flag in [
            "--lora-modules",
            "--otlp-traces-endpoint",
            "--kv-transfer-config",
            "--shutdown-timeout",
            "--headless",
        ] {
            assert!(passed.contains(flag), "{flag} is passed by no case");
        }
    }

    /// Flags of the CPU engine that vLLM does not have.
    const OF_THE_ENGINE: [&str; 3] = ["--max-waiting-queue-length", "--threads", "--weights-as-shipped"];
    /// Flags that older releases of vLLM have.
    const OF_OLDER_RELEASES: [&str; 1] = ["--task"];

    #[test]
    fn vllm_knows_every_flag_that_the_cpu_engine_takes_or_has_for_itself() {
        let (_, source) = texts(&["crates/engine/src/args.rs"]).pop().unwrap();
        let (_, help) = source.split_once("pub const HELP: &str = ").unwrap();
        let (help, _) = help.split_once("\";").unwrap();
        let words = help.split(|c: char| c.is_whitespace() || c == ',');
        let taken: BTreeSet<&str> = words.filter(|word| word.starts_with("--")).collect();
        let known = Flags::committed();
        let unknown: Vec<&str> = taken.iter().copied().filter(|flag| known.find(flag).is_none()).collect();
        assert!(taken.len() > 25, "{taken:?}");
        let mut own = [&OF_THE_ENGINE[..], &OF_OLDER_RELEASES].concat();
        own.sort_unstable();
        assert_eq!(unknown, own, "vLLM {}", known.version);
    }

    #[test]
    fn vllm_knows_every_flag_that_examples_and_the_book_name_beside_it() {
        // Flags of our programs. Those of the engine are checked above.
        let (_, ours) = texts(&["docs/reference/cli.md"]).pop().unwrap();
        let known = Flags::committed();
        let (mut named, mut unknown) = (BTreeSet::new(), BTreeMap::new());
        for (path, text) in texts(&["docs/concepts", "docs/guides", "examples", "README.md"]) {
            for line in text.lines().filter(|line| line.to_lowercase().contains("vllm")) {
                let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
                for flag in words.filter(|word| word.starts_with("--") && word.len() > 2) {
                    named.insert(flag.to_owned());
                    if known.find(flag).is_none() && !ours.contains(flag) {
                        unknown.insert(flag.to_owned(), path.clone());
                    }
                }
            }
        }
        assert!(named.len() > 5, "{named:?}");
        assert_eq!(unknown, BTreeMap::new(), "vLLM {} does not know these", known.version);
    }
}
