//! Names of metrics of vLLM and SGLang: those that the code, the book and the alerts use exist.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Recording,
    texts::{FOLDERS, texts},
};

/// The metrics of an engine whose KV cache NIXL transfers, which other engines do not have.
const TRANSFER: &str = include_str!("../../../../tests/vllm/transfer-metrics.txt");

/// The metrics of SGLang 0.5.23.
const SGLANG: &str = include_str!("../../../../tests/vllm/sglang-metrics.txt");

/// Returns the name of a family of metrics without its unit: OpenMetrics adds endings to it.
fn family(name: &str) -> &str {
    let endings = ["_total", "_created", "_bucket", "_count", "_sum"];
    let family = endings.into_iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    family.strip_suffix("_seconds").unwrap_or(family)
}

/// Returns the names of an engine's metrics in all texts, with a file that has the name.
fn named(prefix: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (path, text) in texts(&FOLDERS) {
        for rest in text.split(prefix).skip(1) {
            let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let name = rest.split(|c| !is_part(c)).next().unwrap_or_default();
            // Tags of images and other text have no underscore. A name that ends with one is a beginning of several.
            if name.contains('_') && !name.ends_with('_') {
                found.insert(family(name).to_owned(), path.clone());
            }
        }
    }
    found
}

#[test]
fn vllm_has_every_metric_that_the_code_the_book_and_the_alerts_name() {
    let mut named = named("vllm:");
    let recording = Recording::committed();
    let page = recording.answer("get /metrics")["metrics"].as_object().unwrap();
    let transfer = TRANSFER.lines().filter_map(|line| line.split(' ').next());
    let known: BTreeSet<&str> = page.keys().map(String::as_str).chain(transfer).map(family).collect();
    let known: BTreeSet<&str> = known.iter().map(|name| name.strip_prefix("vllm:").unwrap_or(name)).collect();
    assert!(named.len() > 20, "found only {named:?}");
    // Earlier releases have some names with this beginning.
    named.retain(|name, _| !known.contains(name.as_str()) && !name.starts_with("gpu_"));
    assert_eq!(named, BTreeMap::new(), "vLLM {} has no such metrics", recording.version);
}

#[test]
fn sglang_has_every_metric_that_the_code_the_book_and_the_alerts_name() {
    let mut named = named("sglang:");
    let recorded = SGLANG.lines().filter_map(|line| line.split(' ').next()?.strip_prefix("sglang:"));
    let known: BTreeSet<&str> = recorded.map(family).collect();
    assert!(named.len() > 8, "found only {named:?}");
    // Older versions have it.
    named.remove("cache_config_info");
    named.retain(|name, _| !known.contains(name.as_str()));
    assert_eq!(named, BTreeMap::new(), "SGLang has no such metrics");
}
