//! The topologies of `examples` with a real model on the CPU engine: all of them generate the same tokens.
//!
//! Left out are `multi-node`, because the CPU engine has no data parallelism (`engine.rs` tests such a manifest), and `lora`,
//! whose adapters belong to another model.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{engine::small_model, http, local_cluster::LocalCluster, tools};

const FOLDERS: [&str; 5] = ["single-node", "prefill-decode", "precise-prefix", "canary", "scaling"];

/// Writes the manifests of the examples with the small model in place of their models. Returns their paths.
fn manifests(folder: &Path, uri: &str) -> Vec<String> {
    let mut written = Vec::new();
    for example in FOLDERS {
        for entry in fs::read_dir(tools::root().join("examples").join(example)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(|line| match line.split_once("uri: hf://") {
                Some((before, _)) => format!("{before}uri: {uri}"),
                None => line.to_owned(),
            });
            let file = folder.join(format!("{example}-{}", path.file_name().unwrap().to_str().unwrap()));
            fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
            written.push(file.to_str().unwrap().to_owned());
        }
    }
    written
}

/// Returns the address in the line of `up`'s output that contains `words`: that of a service or of a group.
fn url(said: &str, words: &str) -> String {
    let line =
        said.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("no {words} in {said}"));
    let address = line.split_whitespace().find(|word| word.starts_with("http")).unwrap();
    address.trim_end_matches(':').to_owned()
}

/// Returns the tokens of a greedy completion, and the number of cached prompt tokens.
fn greedy(url: &str, model: &str, prompt: &str) -> (Vec<String>, u64) {
    let body = json!({"model": model, "max_tokens": 16, "temperature": 0, "logprobs": true,
        "messages": [{"role": "user", "content": prompt}]});
    let answer = http::post(&format!("{url}/v1/chat/completions"), &body);
    assert_eq!(answer.status, 200, "{url}: {answer:?}");
    let answer = answer.json();
    let tokens = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    let tokens = tokens.iter().map(|token| token["token"].as_str().unwrap().to_owned()).collect();
    let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    (tokens, cached.unwrap_or_default())
}

fn streamed(url: &str, model: &str, prompt: &str) -> String {
    let body = json!({"model": model, "max_tokens": 16, "temperature": 0, "stream": true,
        "messages": [{"role": "user", "content": prompt}]});
    let answer = http::post(&format!("{url}/v1/chat/completions"), &body);
    let chunks = answer
        .body
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    chunks
        .map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Returns a metric of the decode engine of the disaggregated service.
fn decoder(world: &LocalCluster, series: &str) -> f64 {
    let pods = world.object(&["pods", "-l", "app.kubernetes.io/name=qwen-pd,llm-d.ai/role=decode"]);
    let address =
        pods["items"][0]["status"]["podIP"].as_str().unwrap_or_else(|| panic!("no decode pod: {pods}"));
    let page = http::get(&format!("http://{address}:8000/metrics")).body;
    let line =
        page.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("no {series}: {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn every_topology_computes_the_same_tokens() {
    if tools::kubectl().is_none() {
        return;
    }
    // `/tmp` is a volume of the pods, so a model below it would not be found there.
    let folder = TempDir::new_in(tools::root().join("target")).unwrap();
    let Some(uri) = small_model(folder.path()) else { return };
    let manifests = manifests(folder.path(), &uri);
    let mut arguments = vec!["--engine", "cpu"];
    arguments.extend(manifests.iter().map(String::as_str));
    let world = LocalCluster::start(&arguments);
    let said = world.running.stderr();
    let services = [
        ("/qwen-pd serves at", "Qwen/Qwen2.5-7B-Instruct"),
        ("/qwen-precise serves at", "Qwen/Qwen2.5-0.5B-Instruct"),
        ("/chat serves at", "chat"),
        ("/chat-canary serves at", "chat"),
        ("group default/chat shares", "chat"),
        ("/qwen-scaled serves at", "Qwen/Qwen2.5-0.5B-Instruct"),
        ("/qwen-keda serves at", "qwen-keda"),
    ];
    let single = url(&said, "/qwen serves at");
    let prompts = ["Why is the sea salty? Answer in one sentence.", "Count from one to ten."];
    for prompt in prompts {
        let (expected, _) = greedy(&single, "Qwen/Qwen2.5-0.5B-Instruct", prompt);
        assert!(expected.len() > 4, "{expected:?}");
        for (words, model) in services {
            let (tokens, _) = greedy(&url(&said, words), model, prompt);
            assert_eq!(tokens, expected, "{words}");
        }
        let divided = url(&said, services[0].0);
        let text = streamed(&divided, services[0].1, prompt);
        assert_eq!(text, streamed(&single, "Qwen/Qwen2.5-0.5B-Instruct", prompt));
        assert!(!text.is_empty());
    }
    // The prefill pod computed the prompts: once for each answer, and once for each stream.
    assert!((decoder(&world, "vllm:nixl_xfer_time_seconds_count{") - 4.0).abs() < 0.1);
    assert!(decoder(&world, "vllm:nixl_bytes_transferred_sum{") > 1e6);
    assert!(decoder(&world, "vllm:nixl_num_failed_transfers_total{") < 0.1);

    // The picker sends a prompt again to the engine that reported its blocks as cached.
    let precise = url(&said, services[1].0);
    let mut found = 0;
    for number in 0..10 {
        let words: Vec<_> = (0..24).map(|word| format!("{number} and word {word}")).collect();
        let prompt = words.join(", ");
        let (first, cached) = greedy(&precise, services[1].1, &prompt);
        assert!(cached < 64, "{cached}");
        let (second, cached) = greedy(&precise, services[1].1, &prompt);
        assert_eq!(first, second);
        found += usize::from(cached >= 96);
    }
    // Random choice would find half of them. Not all are expected: the picker skips a pod for a moment when its metrics are
    // late.
    assert!(found >= 8, "{found} of 10 prompts went where they were cached");
}
