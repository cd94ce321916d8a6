//! Each name that code, book and presets have from vLLM is one of vLLM's: environment variables, connectors of KV caches, and fields of
//! the settings of a transfer.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    RECORDING,
    texts::{FOLDERS, texts},
};

/// Variables that the presets read and vLLM does not.
const OF_PRESETS: [&str; 2] = ["VLLM_ADDITIONAL_ARGS", "VLLM_API_SERVER_COUNT"];
/// Fields of `--kv-transfer-config` that older releases have. The CPU engine takes them, too.
const OF_OLDER_RELEASES: [&str; 4] = ["kv_buffer_size", "kv_ip", "kv_parallel_size", "kv_rank"];

/// Returns the words that begin and end like this in all texts, with a file that has the word.
fn words(is_one: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (path, text) in texts(&FOLDERS) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        found.extend(words.filter(|word| is_one(word)).map(|word| (word.to_owned(), path.clone())));
    }
    found
}

fn assert_known(known: &Value, mut named: BTreeMap<String, String>, besides: &[&str], least: usize) {
    named.retain(|name, _| !besides.contains(&name.as_str()));
    assert!(named.len() >= least, "found only {named:?}");
    named.retain(|name, _| match known {
        Value::Array(all) => !all.contains(&json!(name)),
        all => all.get(name).is_none(),
    });
    assert_eq!(named, BTreeMap::new(), "vLLM {} has none of these", RECORDING["version"]);
}

#[test]
fn vllm_reads_every_variable_that_the_code_the_book_and_the_presets_name() {
    let named = words(|word| word.starts_with("VLLM_") && !word.ends_with('_'));
    assert_known(&RECORDING["variables"], named, &OF_PRESETS, 8);
}

#[test]
fn vllm_has_every_connector_that_the_code_the_book_and_the_presets_name() {
    // Connectors of HTTP clients, and a type of the API.
    let ours = [
        "HttpConnector",
        "HttpsConnector",
        "TcpConnector",
        "TlsConnector",
        "TimedConnector",
        "KVCacheOffloadingSpec",
    ];
    let kind = |word: &str| {
        let kind = ["Connector", "OffloadingSpec"].iter().find_map(|end| word.strip_suffix(end))?;
        Some(kind.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    assert_known(&RECORDING["connectors"], words(|word| kind(word) == Some(true)), &ours, 4);
}

#[test]
fn vllm_has_every_setting_of_a_transfer_that_the_engine_takes() {
    let path = "crates/engine/src/transfer/config.rs";
    let (_, text) = texts(&[path]).pop().unwrap();
    let taken = text
        .split('"')
        .filter(|word| word.starts_with("kv_") && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    let is_value =
        |word: &&str| !["kv_producer", "kv_consumer", "kv_both", "kv_lease_duration"].contains(word);
    let taken = taken.filter(is_value).map(|word| (word.to_owned(), path.to_owned())).collect();
    let settings = &RECORDING["flags"]["--kv-transfer-config"]["schema"]["properties"];
    assert_known(settings, taken, &OF_OLDER_RELEASES, 4);
}
