//! Each flag of vLLM that presets, planning, examples and the book pass is one of `vllm serve`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use super::{RECORDING, texts::texts};

fn version() -> &'static Value {
    &RECORDING["version"]
}

/// Returns the flag with this name, with underscores or dashes as vLLM takes both.
fn find(name: &str) -> Option<&'static Value> {
    let name = name.replace('_', "-");
    let flags = RECORDING["flags"].as_object().unwrap();
    flags.get(&name).or_else(|| {
        flags.values().find(|flag| flag["aliases"].as_array().unwrap().contains(&name.as_str().into()))
    })
}

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
            match find(word) {
                None => unknown.extend([(*word).to_owned()]),
                Some(flag) if flag["choices"][0].is_string() => {
                    let value = words.get(position + 1).copied().unwrap_or_default();
                    if !flag["choices"].as_array().unwrap().contains(&value.into()) {
                        unknown.insert(format!("{word} {value}"));
                    }
                }
                Some(_) => {}
            }
        }
    }
    assert_eq!(unknown, BTreeSet::new(), "vLLM {} does not know these", version());
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
    let unknown: Vec<&str> = taken.iter().copied().filter(|flag| find(flag).is_none()).collect();
    assert!(taken.len() > 25, "{taken:?}");
    let mut own = [&OF_THE_ENGINE[..], &OF_OLDER_RELEASES].concat();
    own.sort_unstable();
    assert_eq!(unknown, own, "vLLM {}", version());
}

#[test]
fn vllm_knows_every_flag_that_examples_and_the_book_name_beside_it() {
    // Flags of our programs. Those of the engine are checked above.
    let (_, ours) = texts(&["docs/reference/cli.md"]).pop().unwrap();
    let (mut named, mut unknown) = (BTreeSet::new(), BTreeMap::new());
    for (path, text) in texts(&["docs/concepts", "docs/guides", "examples", "README.md"]) {
        for line in text.lines().filter(|line| line.to_lowercase().contains("vllm")) {
            let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
            for flag in words.filter(|word| word.starts_with("--") && word.len() > 2) {
                named.insert(flag.to_owned());
                if find(flag).is_none() && !ours.contains(flag) {
                    unknown.insert(flag.to_owned(), path.clone());
                }
            }
        }
    }
    assert!(named.len() > 5, "{named:?}");
    assert_eq!(unknown, BTreeMap::new(), "vLLM {} does not know these", version());
}
