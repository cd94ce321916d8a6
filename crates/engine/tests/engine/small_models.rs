//! Small random models of each family, with and without adapters, compared with plain arithmetic (`reference.py`). The tests
//! also cover the API for adapters.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{self, Server};

/// The reference's log probability of each token after a prompt.
#[derive(Deserialize)]
struct Expected {
    prompt: Vec<u32>,
    plain: Vec<f64>,
    adapted: Vec<f64>,
}

/// Creates the models in a temporary folder, with their expected results. Returns `None` with a visible message if Python or
/// numpy is missing.
fn models() -> Option<(TempDir, BTreeMap<String, Vec<Expected>>)> {
    let folder = tempfile::tempdir().unwrap();
    let stdout = server::script("reference.py", &[folder.path()])?;
    Some((folder, serde_json::from_slice(&stdout).unwrap()))
}

/// Keeps the weights exact. A conversion to 8 bits would change the results more than the order of additions does.
const EXACT: &str = "--weights-as-shipped";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn module(name: &str, folder: &Path) -> String {
    format!("{name}={}", text(folder))
}

/// Returns the 20 most likely tokens after a prompt, as texts with their log probabilities.
async fn likeliest(server: &Server, model: &str, prompt: &[u32]) -> BTreeMap<String, f64> {
    let body = json!({"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": 20});
    let answer = server.post("/v1/completions", &body).await;
    let top = &answer["choices"][0]["logprobs"]["top_logprobs"][0];
    serde_json::from_value(top.clone()).unwrap()
}

/// Returns the same for the reference. The tokens are the printable characters.
fn expected(all: &[f64]) -> BTreeMap<String, f64> {
    let mut all: Vec<(usize, f64)> = all.iter().copied().enumerate().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let character =
        |token: usize| if token == 94 { ' ' } else { char::from(33 + u8::try_from(token).unwrap()) };
    all.into_iter().take(20).map(|(token, logprob)| (character(token).to_string(), logprob)).collect()
}

fn assert_close(what: &str, ours: &BTreeMap<String, f64>, expected: &BTreeMap<String, f64>) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    for (token, logprob) in expected {
        let ours = ours[token];
        assert!((ours - logprob).abs() < 2e-4, "{what}: `{token}` has {ours}, expected {logprob}");
    }
}

#[tokio::test]
async fn every_family_and_adapter_matches_the_reference() {
    let Some((folder, cases)) = models() else { return };
    assert_eq!(cases.len(), 3);
    for (name, prompts) in cases {
        let model = folder.path().join(&name);
        let adapter = module("adapted", &folder.path().join(format!("{name}-adapter")));
        let server = Server::start(&[
            text(&model),
            EXACT,
            "--served-model-name",
            "plain",
            "--enable-lora",
            "--lora-modules",
            &adapter,
        ])
        .await;
        for Expected { prompt, plain, adapted } in &prompts {
            let what = format!("{name} after {} tokens", prompt.len());
            assert_close(&what, &likeliest(&server, "plain", prompt).await, &expected(plain));
            let what = format!("{what}, with the adapter");
            // The second time, most of the prompt is cached.
            for _ in 0..2 {
                assert_close(&what, &likeliest(&server, "adapted", prompt).await, &expected(adapted));
            }
        }
        // All requests at once, with and without the adapter.
        let together = prompts.iter().flat_map(|case| [("plain", case), ("adapted", case)]);
        let together: Vec<_> = together.collect();
        let answers =
            join_all(together.iter().map(|(model, case)| likeliest(&server, model, &case.prompt))).await;
        for ((model, case), answer) in together.iter().zip(&answers) {
            let recorded = if *model == "plain" { &case.plain } else { &case.adapted };
            assert_close(&format!("{name} as {model} in a batch"), answer, &expected(recorded));
        }
        server.end().await;
    }
}

/// The reference's vector of a text.
#[derive(Deserialize)]
struct Embedded {
    prompt: Vec<u32>,
    vector: Vec<f64>,
}

fn assert_vector(what: &str, ours: &Value, expected: &[f64]) {
    let ours: Vec<f64> = serde_json::from_value(ours.clone()).unwrap();
    assert_eq!(ours.len(), expected.len(), "{what}");
    for (ours, expected) in ours.iter().zip(expected) {
        assert!((ours - expected).abs() < 1e-4, "{what}: {ours}, expected {expected}");
    }
}

#[tokio::test]
async fn models_for_embeddings_make_the_vectors_of_plain_arithmetic() {
    let Some((folder, _)) = models() else { return };
    let expected = fs::read(folder.path().join("embeddings.json")).unwrap();
    let expected: BTreeMap<String, Vec<Embedded>> = serde_json::from_slice(&expected).unwrap();
    assert_eq!(expected.len(), 3);
    for (name, cases) in expected {
        let model = folder.path().join(format!("embeds-{name}"));
        // The forward passes are shorter than the longest text.
        let server = Server::start(&[
            text(&model),
            EXACT,
            "--served-model-name",
            "e",
            "--max-num-batched-tokens",
            "32",
        ])
        .await;
        let prompts: Vec<&[u32]> = cases.iter().map(|case| case.prompt.as_slice()).collect();
        let answer = server.post("/v1/embeddings", &json!({"model": "e", "input": prompts})).await;
        let count: usize = prompts.iter().map(|prompt| prompt.len()).sum();
        assert_eq!((&answer["usage"]["prompt_tokens"], &answer["object"]), (&json!(count), &json!("list")));
        for (case, entry) in cases.iter().zip(answer["data"].as_array().unwrap()) {
            assert_vector(
                &format!("{name} of {} tokens", case.prompt.len()),
                &entry["embedding"],
                &case.vector,
            );
        }
        // The characters from `!` to `~` are the tokens from 0 on. A text, a list of texts and tokens are the same input
        // here.
        let (first, body) = (&cases[0].vector, |input: Value| json!({"model": "e", "input": input}));
        for input in [json!("\"#$"), json!(["\"#$"]), json!([1, 2, 3])] {
            let answer = server.post("/v1/embeddings", &body(input)).await;
            assert_vector(&name, &answer["data"][0]["embedding"], first);
        }
        let mut short = body(json!([1, 2, 3]));
        short["dimensions"] = 16.into();
        let response = server.send("/v1/embeddings", &short).await;
        let (status, answer): (_, Value) = (response.status(), response.json().await.unwrap());
        if name == "last" {
            let length = first[..16].iter().map(|number| number * number).sum::<f64>().sqrt();
            let cut: Vec<f64> = first[..16].iter().map(|number| number / length).collect();
            assert_vector("cut", &answer["data"][0]["embedding"], &cut);
        } else {
            let message = answer["error"]["message"].as_str().unwrap();
            assert_eq!(status, 400);
            assert!(
                message.starts_with("Model \"e\" does not support matryoshka representation"),
                "{message}"
            );
        }
        // A model has only the routes of its use.
        for path in ["/v1/chat/completions", "/v1/completions", "/v1/responses"] {
            let refused = server.send(path, &json!({"model": "e", "prompt": [1], "max_tokens": 1})).await;
            assert_eq!(refused.status(), 404, "{path}");
        }
        server.end().await;
    }
    let model = folder.path().join("qwen3");
    let server = Server::start(&[text(&model), EXACT, "--served-model-name", "m"]).await;
    let refused = server.send("/v1/embeddings", &json!({"model": "m", "input": "a"})).await;
    assert_eq!(refused.status(), 404);
    let answer: Value = refused.json().await.unwrap();
    assert_eq!(
        (&answer["error"]["message"], &answer["error"]["type"]),
        (&json!("Not Found"), &json!("NotFoundError"))
    );
    server.end().await;
    // The same generation model with `--runner pooling`, as in vLLM.
    let server =
        Server::start(&[text(&model), EXACT, "--served-model-name", "m", "--runner", "pooling"]).await;
    let answer = server.post("/v1/embeddings", &json!({"input": [7]})).await;
    let last: BTreeMap<String, Vec<Embedded>> =
        serde_json::from_slice(&fs::read(folder.path().join("embeddings.json")).unwrap()).unwrap();
    assert_vector("--runner pooling", &answer["data"][0]["embedding"], &last["last"][1].vector);
    server.end().await;
}

#[tokio::test]
async fn requests_for_vectors_that_cannot_be_made_are_refused_by_name() {
    let Some((folder, _)) = models() else { return };
    let model = folder.path().join("embeds-last");
    let server = Server::start(&[text(&model), "--served-model-name", "e", "--max-model-len", "64"]).await;
    for (fields, words) in [
        (json!({}), "input: Field required."),
        (json!({"input": []}), "input must not be empty."),
        (json!({"input": ""}), "input must not be empty."),
        (json!({"input": [500]}), "Token id 500 is out of vocabulary"),
        (json!({"input": "a".repeat(65)}), "This model's maximum context length is 64 tokens."),
        (json!({"input": vec!["a"; 3000]}), "input: at most 2048 are taken at once."),
        (json!({"input": "a", "encoding_format": "bytes"}), "encoding_format: expected `float` or `base64`."),
        (json!({"input": "a", "dimensions": 0}), "dimensions must be from 1 to 64, got 0."),
        (json!({"input": "a", "dimensions": -1}), "dimensions must be from 1 to 64, got -1."),
        (json!({"input": "a", "dimensions": 65}), "dimensions must be from 1 to 64, got 65."),
        (json!({"input": "a", "normalize": false}), "normalize is not supported by this server"),
        (
            json!({"input": "a", "truncate_prompt_tokens": 3}),
            "truncate_prompt_tokens is not supported by this server",
        ),
    ] {
        let message = error_of(&server, "/v1/embeddings", &fields, 400).await;
        assert!(message.starts_with(words), "{message}");
    }
    server.end().await;
    let refused = |change: fn(&Path)| {
        change(&model);
        longboat_engine::check(&model, None).unwrap_err().to_string().replace(text(&model), "DIR")
    };
    let found = [
        refused(|model| {
            fs::write(model.join("1_Pooling/config.json"), r#"{"pooling_mode_max_tokens": true}"#).unwrap();
        }),
        refused(|model| {
            fs::write(model.join("1_Pooling/config.json"), "{}").unwrap();
        }),
        refused(|model| {
            let modules = r#"[{"type": "sentence_transformers.models.Pooling", "path": "../other"}]"#;
            fs::write(model.join("modules.json"), modules).unwrap();
        }),
        refused(|model| {
            let modules = r#"[{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]"#;
            fs::write(model.join("modules.json"), modules).unwrap();
        }),
    ];
    assert_eq!(
        found,
        [
            "`DIR/1_Pooling/config.json`: `pooling_mode_max_tokens` is not supported by this engine",
            "`DIR/1_Pooling/config.json`: no `pooling_mode_…` is true",
            "`DIR/modules.json`: the path of the pooling module is not a folder name",
            "`DIR/modules.json`: the module `sentence_transformers.models.Dense` is not supported by this engine",
        ]
    );
}

/// A prompt of several blocks.
fn long_prompt() -> Vec<u32> {
    (0..90).map(|token| token % 80).collect()
}

async fn cached(server: &Server, model: &str) -> u64 {
    let body = json!({"model": model, "prompt": long_prompt(), "max_tokens": 1});
    let answer = server.post("/v1/completions", &body).await;
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

/// Sends a request that is refused with this status. Returns the message.
async fn error_of(server: &Server, path: &str, body: &Value, status: u16) -> String {
    let response = server.send(path, body).await;
    assert_eq!(response.status(), status, "{body}");
    let answer: Value = response.json().await.unwrap();
    answer["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn adapters_beyond_the_limit_leave_memory_and_are_read_again() {
    let Some((folder, _)) = models() else { return };
    let (model, path) = (folder.path().join("llama"), folder.path().join("llama-adapter"));
    let own = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(&path).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), own.path().join(file.file_name())).unwrap();
    }
    let modules = [("a", own.path()), ("b", &path)].map(|(name, path)| format!("{name}={}", text(path)));
    let limits = ["--max-cpu-loras", "1", "--enable-lora", "--lora-modules", &modules[0], &modules[1]];
    let named = [text(&model), EXACT, "--served-model-name", "m"];
    let server = Server::start_in(&[&named[..], &limits].concat(), |_| None).await;
    // Cached blocks of an adapter are found while the adapter stays in memory, which is until the other adapter is used.
    for (model, found) in [("b", 0), ("b", 80), ("a", 0), ("a", 80), ("b", 0), ("b", 80), ("m", 0)] {
        assert_eq!(cached(&server, model).await, found, "{model}");
    }
    let body = json!({"model": "a", "prompt": [1], "max_tokens": 1});
    assert_eq!(server.send("/v1/completions", &body).await.status(), 200);
    // While the adapter is in memory, its files are not needed. After its memory was released, they are.
    std::fs::remove_file(own.path().join("adapter_model.safetensors")).unwrap();
    assert_eq!(server.send("/v1/completions", &body).await.status(), 200);
    cached(&server, "b").await;
    let message = error_of(&server, "/v1/completions", &body, 500).await;
    assert!(message.starts_with("While reading the LoRA adapter a again: "), "{message}");
    server.end().await;
}

#[tokio::test]
async fn adapters_are_models_that_requests_load_ask_and_unload() {
    let Some((folder, _)) = models() else { return };
    let (model, path) = (folder.path().join("llama"), folder.path().join("llama-adapter"));
    let adapter_json = json!({"name": "given", "path": path, "base_model_name": "m"}).to_string();
    let server = Server::start_in(
        &[
            text(&model),
            EXACT,
            "--served-model-name",
            "m",
            "--enable-lora",
            "--lora-modules",
            &adapter_json,
            "--max-loras",
            "2",
        ],
        |name| (name == "VLLM_ALLOW_RUNTIME_LORA_UPDATING").then(|| "1".to_owned()),
    )
    .await;
    let load = json!({"lora_name": "loaded", "lora_path": path});
    let response = server.send("/v1/load_lora_adapter", &load).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.text().await.unwrap(), "Success: LoRA adapter 'loaded' added successfully.");

    let models: Value = serde_json::from_str(&server.get("/v1/models").await).unwrap();
    let listed = |model: &Value| (model["id"].clone(), model["root"].clone(), model["parent"].clone());
    let listed: Vec<_> = models["data"].as_array().unwrap().iter().map(listed).collect();
    assert_eq!(
        listed,
        [
            (json!("m"), json!(model), json!(null)),
            (json!("given"), json!(path), json!("m")),
            (json!("loaded"), json!(path), json!("m")),
        ]
    );

    // Blocks that were computed with one adapter are not found with another one.
    for model in ["m", "given", "loaded"] {
        assert_eq!(cached(&server, model).await, 0, "{model}");
        assert_eq!(cached(&server, model).await, 80, "{model}");
    }
    // The answer is sent before the adapter is released.
    let rests = |page: &str| {
        let series = page.lines().find(|line| line.starts_with("vllm:lora_requests_info{")).unwrap();
        assert!(series.contains(r#"max_lora="2""#), "{series}");
        [r#"running_lora_adapters="""#, r#"waiting_lora_adapters="""#]
            .iter()
            .all(|label| series.contains(label))
    };
    while !rests(&server.get("/metrics").await) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }

    for (route, body, status, message) in [
        (
            "load",
            json!({"lora_name": "loaded", "lora_path": path}),
            400,
            "The lora adapter 'loaded' has already been loaded. If you want to load the adapter in place, set \
             'load_inplace' to True.",
        ),
        ("load", json!({"lora_name": "x"}), 400, "lora_path: Field required."),
        (
            "load",
            json!({"lora_name": "x", "lora_path": ""}),
            400,
            "Both 'lora_name' and 'lora_path' must be provided.",
        ),
        (
            "load",
            json!({"lora_name": "x", "lora_path": "/nowhere"}),
            404,
            "Loading lora x failed: No adapter found for /nowhere",
        ),
        ("unload", json!({"lora_name": "x"}), 404, "The lora adapter 'x' cannot be found."),
        ("unload", json!({}), 400, "lora_name: Field required."),
        (
            "unload",
            json!({"lora_name": ""}),
            400,
            "'lora_name' needs to be provided to unload a LoRA adapter.",
        ),
    ] {
        assert_eq!(error_of(&server, &format!("/v1/{route}_lora_adapter"), &body, status).await, message);
    }
    // After a load in place, the blocks of the old adapter are not used.
    let again = json!({"lora_name": "loaded", "lora_path": path, "load_inplace": true});
    assert_eq!(server.send("/v1/load_lora_adapter", &again).await.status(), 200);
    assert_eq!(cached(&server, "loaded").await, 0);

    assert_eq!(server.send("/v1/unload_lora_adapter", &json!({"lora_name": "loaded"})).await.status(), 200);
    let body = json!({"model": "loaded", "prompt": [1], "max_tokens": 1});
    let message = error_of(&server, "/v1/completions", &body, 404).await;
    assert!(message.starts_with("The model `loaded` does not exist. Valid aliases: "), "{message}");
    server.end().await;
}

#[tokio::test]
async fn without_the_variable_no_request_changes_adapters_and_more_than_max_loras_take_turns() {
    let Some((folder, cases)) = models() else { return };
    let (model, path) = (folder.path().join("qwen2"), folder.path().join("qwen2-adapter"));
    let (a, b) = (module("a", &path), module("b", &path));
    let server = Server::start(&[
        text(&model),
        EXACT,
        "--served-model-name",
        "m",
        "--enable-lora",
        "--lora-modules",
        &a,
        &b,
        "--max-loras",
        "1",
    ])
    .await;
    let load = json!({"lora_name": "c", "lora_path": path});
    assert_eq!(server.send("/v1/load_lora_adapter", &load).await.status(), 404);
    let prompts = &cases["qwen2"];
    let all: Vec<_> = prompts.iter().flat_map(|case| [("a", case), ("b", case), ("m", case)]).collect();
    let answers = join_all(all.iter().map(|(model, case)| likeliest(&server, model, &case.prompt))).await;
    for ((model, case), answer) in all.iter().zip(&answers) {
        let recorded = if *model == "m" { &case.plain } else { &case.adapted };
        assert_close(model, answer, &expected(recorded));
    }
    server.end().await;
}

/// Returns the error of an engine that is started with a changed copy of an adapter.
fn refused(folder: &Path, change: impl FnOnce(&Path), flags: &[&str]) -> String {
    let copy = tempfile::tempdir().unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        fs::copy(folder.join("qwen3-adapter").join(file), copy.path().join(file)).unwrap();
    }
    change(copy.path());
    let (model, adapter) = (folder.join("qwen3"), module("x", copy.path()));
    let mut arguments = vec![text(&model), "--enable-lora", "--lora-modules", &adapter];
    arguments.extend(flags);
    let args = longboat_engine::Args::parse(&arguments).unwrap();
    match longboat_engine::Engine::load(&args) {
        Ok(_) => panic!("the adapter was taken"),
        Err(error) => error.to_string().replace(text(copy.path()), "DIR"),
    }
}

#[test]
fn adapters_that_do_not_fit_end_the_start_with_a_sentence() {
    let Some((folder, _)) = models() else { return };
    let folder = folder.path();
    let settings = |change: fn(&mut Value)| {
        move |copy: &Path| {
            let path: PathBuf = copy.join("adapter_config.json");
            let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            change(&mut value);
            fs::write(path, value.to_string()).unwrap();
        }
    };
    let weights = |change: fn(String) -> String| {
        move |copy: &Path| {
            let path = copy.join("adapter_model.safetensors");
            let bytes = fs::read(&path).unwrap();
            let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
            let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap());
            let header = change(String::from_utf8(header.to_vec()).unwrap());
            let length = (header.len() as u64).to_le_bytes();
            fs::write(path, [&length[..], header.as_bytes(), data].concat()).unwrap();
        }
    };
    let found = [
        refused(folder, settings(|value| value["r"] = 5.into()), &[]),
        refused(folder, settings(|_| ()), &["--max-lora-rank", "2"]),
        refused(folder, settings(|value| value["use_dora"] = true.into()), &[]),
        refused(folder, settings(|value| value["r"] = u64::MAX.into()), &[]),
        refused(folder, weights(|header| header.replacen("layers.0.", "layers.9.", 1)), &[]),
        refused(folder, weights(|header| header.replacen("lora_A", "lora_embedding_A", 1)), &[]),
        refused(folder, |copy| fs::remove_file(copy.join("adapter_model.safetensors")).unwrap(), &[]),
        refused(folder, |copy| fs::remove_file(copy.join("adapter_config.json")).unwrap(), &[]),
    ];
    let beginnings = [
        "LoRA adapter `x`: `DIR/adapter_model.safetensors`: tensor `base_model.model.model.layers.0.",
        "LoRA adapter `x`: `DIR/adapter_config.json`: LoRA rank 4 is greater than max_lora_rank 2.",
        "LoRA adapter `x`: `DIR/adapter_config.json`: `use_dora` is not supported by this engine",
        "LoRA adapter `x`: `DIR/adapter_config.json`: LoRA rank 18446744073709551615 is greater than",
        "LoRA adapter `x`: `DIR/adapter_model.safetensors`: expected target modules in q_proj, k_proj, v_proj, o_proj, \
         gate_proj, up_proj, down_proj of 3 layers but received [base_model.model.model.layers.9.",
        "LoRA adapter `x`: `DIR/adapter_model.safetensors`: expected target modules in q_proj",
        "LoRA adapter `x`: `DIR`: `adapter_model.safetensors` is missing",
        "LoRA adapter `x`: Loading lora x failed: No adapter found for DIR",
    ];
    for (found, beginning) in found.iter().zip(beginnings) {
        assert!(found.starts_with(beginning), "{found}");
    }
}
