//! The engine that `up` chooses, the CPU engine or the simulator, and that `up` tells which.

use std::{os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http,
    local_cluster::{LocalCluster, MODEL as MODEL_NAME, example, run, up},
    tools,
};

const MODEL: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Returns the file of the small model. Returns `None`, and reports it, if the model was not fetched or nothing can compute it.
pub(crate) fn model_file() -> Option<std::path::PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_longboat")).with_file_name("longboat-engine");
    if !program.is_file() {
        longboat_golden::skipped(
            "longboat-engine is missing; `cargo build -p longboat-engine --features llguidance` builds it",
        );
        return None;
    }
    let model = tools::root().join(".cache/models").join(MODEL);
    if !model.is_file() {
        longboat_golden::skipped("the model is missing; scripts/tools.sh fetches it");
        return None;
    }
    Some(model)
}

/// Links the small model into a new folder below `folder`, and returns its URI. Returns `None`, and reports it, if the model
/// was not fetched.
pub(crate) fn small_model(folder: &Path) -> Option<String> {
    let model = model_file()?;
    std::fs::create_dir(folder.join("model")).unwrap();
    symlink(model, folder.join("model").join(MODEL)).unwrap();
    Some(format!("file://{}/model", folder.display()))
}

/// Writes the example with the small model to `folder`, and returns its path.
fn with_the_model(folder: &Path) -> Option<String> {
    let uri = small_model(folder)?;
    let text = std::fs::read_to_string(example()).unwrap();
    let manifest = folder.join("service.yaml");
    std::fs::write(&manifest, text.replace("hf://Qwen/Qwen2.5-0.5B-Instruct", &uri)).unwrap();
    Some(manifest.to_str().unwrap().to_owned())
}

#[test]
fn a_model_that_is_here_is_computed_and_the_pod_says_so() {
    // `/tmp` is a volume of the pods, so a model below it would not be found there.
    let folder = TempDir::new_in(tools::root().join("target")).unwrap();
    let Some(manifest) = with_the_model(folder.path()) else { return };
    let world = LocalCluster::start(&["--engine", "auto", &manifest]);
    let first = world.running.stderr().lines().next().unwrap_or_default().to_owned();
    assert!(first.starts_with("engine: cpu: runs file://") && first.contains("llama, 30 layers"), "{first}");
    let pods = world.object(&["pods"]);
    let pods = pods["items"].as_array().unwrap();
    let notes: Vec<_> = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["annotations"]["longboat.dev/engine"].as_str())
        .collect();
    assert!(notes.len() == 1 && notes[0].starts_with("cpu: runs "), "{notes:?}");
    assert!(world.running.stderr().contains("engine: cpu"), "the tree says it");
    let body = r#"{"model": "Qwen/Qwen2.5-0.5B-Instruct", "temperature": 0, "max_tokens": 8,
        "messages": [{"role": "user", "content": "What is gravity?"}]}"#;
    let asked = run(std::process::Command::new("curl").args([
        "-sS",
        "-H",
        "content-type: application/json",
        "-d",
        body,
        &format!("{}/v1/chat/completions", world.url),
    ]));
    let answer: Value = serde_json::from_str(&asked.stdout).unwrap();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.contains("Gravity"), "{answer}");
}

#[test]
fn the_first_example_is_computed_with_the_model_that_the_tests_use_and_says_what_to_do_without_one() {
    if model_file().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let example = tools::root().join("examples/small-model");
    let first = || {
        let mut command = up(folder.path());
        command
            .args(["--port", "0", "--engine", "auto", "--once"])
            .arg(&example)
            .env("HF_ENDPOINT", "http://127.0.0.1:1")
            .env("HF_HOME", folder.path().join("hub"))
            .env("LONGBOAT_CACHE", folder.path().join("cache"));
        command
    };
    let ended = run(first().env("LONGBOAT_MODELS", tools::root().join(".cache/models")));
    assert!(
        ended.stderr.starts_with("engine: cpu: runs hf://HuggingFaceTB/SmolLM2-135M-Instruct"),
        "{ended:#?}"
    );
    assert!(ended.status.success() && ended.stderr.contains("default/smollm2: Ready"), "{ended:#?}");

    let ended = run(first().args(["--prompt", "What is gravity?"]));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(lines[0].starts_with("engine: the simulator, because "), "{ended:#?}");
    assert!(lines[1].starts_with("real answers: `longboat run smollm2-135m` downloads"), "{ended:#?}");
    assert!(ended.status.success() && !ended.stdout.trim().is_empty(), "{ended:#?}");
}

#[test]
fn conversations_go_back_to_the_replica_that_computed_their_beginning() {
    let folder = TempDir::new_in(tools::root().join("target")).unwrap();
    let Some(manifest) = with_the_model(folder.path()) else { return };
    let text = std::fs::read_to_string(&manifest).unwrap();
    assert!(text.contains("replicas: 1"), "{text}");
    std::fs::write(&manifest, text.replace("replicas: 1", "replicas: 2")).unwrap();
    let world = LocalCluster::start(&["--engine", "cpu", &manifest]);
    let mut found = Vec::new();
    for name in ["Ann", "Bob", "Cyd"] {
        let words: Vec<_> = (0..40).map(|word| format!("{name} has {word} boats")).collect();
        let mut messages = vec![json!({"role": "user", "content": words.join(", ")})];
        let mut known: Option<u64> = None;
        for question in ["And how many does she sell?", "Why?", "What is left?", "Is that so?"] {
            let body = json!({"model": MODEL_NAME, "messages": messages, "temperature": 0, "max_tokens": 8});
            let answer = http::post(&format!("{}/v1/chat/completions", world.url), &body);
            assert_eq!(answer.status, 200, "{answer:?}");
            let said = answer.json();
            let cached = said["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or_default();
            match known {
                // The other conversations have the same system prompt, which is short.
                None => assert!(cached < 64, "{said}"),
                Some(known) => found.push((cached, known)),
            }
            known = said["usage"]["prompt_tokens"].as_u64();
            messages.push(said["choices"][0]["message"].clone());
            messages.push(json!({"role": "user", "content": question}));
        }
    }
    // All full blocks of the turn before. Random choice would find half of them. Not all are expected: the picker skips a pod for a
    // moment when its metrics are late.
    let back = found.iter().filter(|(cached, known)| *cached >= known / 16 * 16).count();
    assert!(
        back >= 8,
        "{back} of 9 turns went back to their replica (cached tokens, tokens before): {found:?}"
    );
}

#[test]
fn what_cannot_be_computed_is_simulated_with_the_reason_or_refused_where_that_was_asked() {
    let folder = TempDir::new().unwrap();
    let divided = tools::root().join("examples/multi-node/service.yaml");
    let divided = divided.to_str().unwrap();
    let ended = run(up(folder.path()).args(["--port", "0", "--engine", "auto", "--once", divided]));
    let first = ended.stderr.lines().next().unwrap_or_default();
    assert!(ended.status.success(), "{ended:#?}");
    assert!(
        first.starts_with("engine: the simulator, because deepseek needs a model that spans several pods"),
        "{first}"
    );

    let ended = run(up(folder.path()).args(["--port", "0", "--engine", "cpu", "--once", divided]));
    for words in
        ["error: the CPU engine cannot run the model", "deepseek needs a model that spans several pods"]
    {
        assert!(!ended.status.success() && ended.stderr.contains(words), "{ended:#?}");
    }

    // Nothing listens at this endpoint. Offline, the hub must not be asked.
    let example = example();
    let mut offline = up(folder.path());
    offline
        .env("HF_ENDPOINT", "http://127.0.0.1:1")
        .env("HF_HOME", folder.path())
        .env("LONGBOAT_CACHE", folder.path());
    let ended = run(offline.args(["--engine", "cpu", "--offline", "--once", example.to_str().unwrap()]));
    assert!(
        !ended.status.success() && ended.stderr.contains("is not completely on this machine"),
        "{ended:#?}"
    );
}
