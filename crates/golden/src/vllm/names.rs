//! Names that vLLM knows: environment variables, connectors of KV caches, and fields of settings in JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

const TEXT: &str = include_str!("../../../../tests/vllm/names.json");

/// The names by their kind.
#[derive(Debug, Serialize, Deserialize)]
pub struct Names {
    /// The version of vLLM of which the names are.
    pub version: String,
    /// The names of `variables`, `connectors` and `settings`.
    #[serde(flatten)]
    pub kinds: BTreeMap<String, BTreeSet<String>>,
}

// === impl Names ===

impl Names {
    /// Reads the names in the repository.
    pub fn committed() -> Self {
        serde_json::from_str(TEXT).unwrap_or_else(|error| panic!("tests/vllm/names.json: {error}"))
    }

    /// Returns the names that a vLLM of this version printed.
    pub fn of(version: &str, printed: &Value) -> Self {
        let kinds =
            serde_json::from_value(printed.clone()).unwrap_or_else(|error| panic!("{error}: {printed}"));
        Self { version: version.to_owned(), kinds }
    }

    /// Returns the text of the file.
    pub fn write(&self) -> String {
        serde_json::to_string_pretty(self).unwrap() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vllm::texts::{FOLDERS, texts};

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

    fn assert_known(kind: &str, mut named: BTreeMap<String, String>, besides: &[&str], least: usize) {
        let committed = Names::committed();
        let known = &committed.kinds[kind];
        named.retain(|name, _| !besides.contains(&name.as_str()));
        assert!(named.len() >= least, "found only {named:?}");
        named.retain(|name, _| !known.contains(name));
        assert_eq!(named, BTreeMap::new(), "vLLM {} has no such {kind}", committed.version);
    }

    #[test]
    fn vllm_reads_every_variable_that_the_code_the_book_and_the_presets_name() {
        let named = words(|word| word.starts_with("VLLM_") && !word.ends_with('_'));
        assert_known("variables", named, &OF_PRESETS, 8);
    }

    #[test]
    fn vllm_has_every_connector_that_the_code_the_book_and_the_presets_name() {
        // Connectors of HTTP clients, and a type of the API.
        let ours =
            ["HttpConnector", "HttpsConnector", "TlsConnector", "TimedConnector", "KVCacheOffloadingSpec"];
        let kind = |word: &str| {
            let kind = ["Connector", "OffloadingSpec"].iter().find_map(|end| word.strip_suffix(end))?;
            Some(kind.starts_with(|c: char| c.is_ascii_uppercase()))
        };
        assert_known("connectors", words(|word| kind(word) == Some(true)), &ours, 4);
    }

    #[test]
    fn vllm_has_every_setting_of_a_transfer_that_the_engine_takes() {
        let path = "crates/engine/src/transfer/config.rs";
        let (_, text) = texts(&[path]).pop().unwrap();
        let taken = text.split('"').filter(|word| {
            word.starts_with("kv_") && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        });
        let is_value =
            |word: &&str| !["kv_producer", "kv_consumer", "kv_both", "kv_lease_duration"].contains(word);
        let taken = taken.filter(is_value).map(|word| (word.to_owned(), path.to_owned())).collect();
        assert_known("settings", taken, &OF_OLDER_RELEASES, 4);
    }
}
