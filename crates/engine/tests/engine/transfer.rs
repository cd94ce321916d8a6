//! Disaggregated prefill and decode between processes: the KV cache of a real model moves from one engine to another.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::server::model;

const SECRET: &str = "the secret of these tests";

/// Runs one test at a time, because each test starts several engines.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Some prompts of other tests, as tokens: a short one, one of several blocks, and one that ends at the end of a block.
fn prompts() -> Vec<Vec<u32>> {
    let recorded: Vec<Value> = serde_json::from_str(include_str!("../recorded.json")).unwrap();
    let tokens =
        |recorded: &Value| -> Vec<u32> { serde_json::from_value(recorded["tokens"].clone()).unwrap() };
    let mut all: Vec<_> = recorded.iter().map(tokens).collect();
    all.sort_by_key(Vec::len);
    let long = &all[all.len() - 1];
    vec![all[0].clone(), long[..100].to_vec(), long[200..264].to_vec()]
}

/// An engine in its own process and on its own address.
struct Engine {
    process: Child,
    url: String,
    client: reqwest::Client,
}

impl Engine {
    fn start(model: &Path, number: u8, role: &str, extra_args: &[&str], variables: &[(&str, &str)]) -> Self {
        longboat_tls::install_default_provider();
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = format!("127.{}.{high}.{low}", 200 + number);
        let config =
            json!({"kv_connector": "NixlConnector", "kv_role": role, "kv_load_failure_policy": "fail"});
        let process = Command::new(env!("CARGO_BIN_EXE_longboat-engine"))
            .arg(model)
            .args(["--host", &host, "--port", "8000", "--served-model-name", "m", "--max-model-len", "512"])
            .args(["--kv-cache-memory-bytes", "50000000", "--kv-transfer-config", &config.to_string()])
            .args(extra_args)
            .env("LONGBOAT_KV_TOKEN", SECRET)
            .env_remove("LONGBOAT_POD_IP")
            .envs(variables.iter().copied())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { process, url: format!("http://{host}:8000"), client }
    }

    async fn ready(&self) {
        for _ in 0..600 {
            if self.client.get(format!("{}/health", self.url)).send().await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{} does not serve", self.url);
    }

    async fn ask(&self, prompt: &[u32], fields: Value) -> (u16, Value) {
        let mut body =
            json!({"model": "m", "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": true});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let request = self.client.post(format!("{}/v1/completions", self.url)).json(&body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn text(&self, prompt: &[u32], fields: Value) -> String {
        let (status, answer) = self.ask(prompt, fields).await;
        assert_eq!(status, 200, "{answer}");
        answer["choices"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Computes a prompt for another engine, and returns the transfer parameters.
    async fn prefill(&self, prompt: &[u32]) -> Value {
        let params = json!({"do_remote_decode": true, "do_remote_prefill": false, "remote_engine_id": null,
            "remote_block_ids": null, "remote_host": null, "remote_port": null});
        let (status, answer) = self.ask(prompt, json!({"max_tokens": 1, "kv_transfer_params": params})).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["usage"]["completion_tokens"], 1);
        let params = answer["kv_transfer_params"].clone();
        assert_eq!(params["do_remote_prefill"], true, "{answer}");
        assert_eq!(params["remote_block_ids"][0].as_array().unwrap().len(), prompt.len().div_ceil(16));
        json!({"kv_transfer_params": params})
    }

    async fn metric(&self, name: &str) -> f64 {
        let page =
            self.client.get(format!("{}/metrics", self.url)).send().await.unwrap().text().await.unwrap();
        let line = page.lines().find(|line| line.starts_with(&format!("{name}{{")));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Waits until no blocks are kept for others.
    async fn let_go(&self) {
        for _ in 0..600 {
            if self.metric("vllm:kv_cache_usage_perc").await < 1e-6 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("blocks are still in use");
    }

    /// Sends SIGTERM, and waits until the server listens no more.
    async fn terminate(&self) {
        Command::new("kill").arg(self.process.id().to_string()).status().unwrap();
        while self.client.get(format!("{}/health", self.url)).send().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn float(number: usize) -> f64 {
    number as f64
}

#[tokio::test]
async fn a_prompt_computed_elsewhere_is_answered_as_if_it_had_been_computed_here() {
    let Some(model) = model() else { return };
    let _turn = TURN.lock().await;
    let mut prefill = Engine::start(&model, 1, "kv_producer", &[], &[]);
    let decode = Engine::start(&model, 2, "kv_consumer", &[], &[]);
    let patient =
        r#"{"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_load_failure_policy": "recompute"}"#;
    let extra_args = ["--kv-transfer-config", patient, "--shutdown-timeout", "60"];
    let mut recompute = Engine::start(&model, 3, "kv_both", &extra_args, &[]);
    for engine in [&prefill, &decode, &recompute] {
        engine.ready().await;
    }
    let (mut hits, mut transfers) = (0, 0);
    for prompt in &prompts() {
        let alone = recompute.text(prompt, json!({})).await;
        let params = prefill.prefill(prompt).await;
        let (status, answer) = decode.ask(prompt, params.clone()).await;
        assert_eq!((status, &answer["choices"][0]["text"]), (200, &json!(alone)), "{answer}");
        assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], prompt.len() - 1);
        (hits, transfers) = (hits + prompt.len() - 1, transfers + 1);
        // Blocks can be fetched only once.
        let (status, again) = decode.ask(prompt, params).await;
        let message = again["error"]["message"].as_str().unwrap();
        assert!(status == 500 && message.contains("does not have the KV cache of the prompt"), "{again}");
    }
    assert!(decode.metric("vllm:external_prefix_cache_hits_total").await <= float(hits));
    assert!(decode.metric("vllm:external_prefix_cache_hits_total").await > float(hits) / 2.0);
    assert!((decode.metric("vllm:nixl_xfer_time_seconds_count").await - float(transfers)).abs() < 0.1);
    assert!((decode.metric("vllm:nixl_num_failed_transfers_total").await - float(transfers)).abs() < 0.1);
    // 30 layers with keys and values of 3 heads, each with 64 numbers of 4 bytes.
    let token_bytes = 30 * 2 * 3 * 64 * 4;
    let blocks: usize = prompts().iter().map(|prompt| prompt.len().div_ceil(16)).sum();
    let bytes = decode.metric("vllm:nixl_bytes_transferred_sum").await;
    assert!((bytes - float(blocks * 16 * token_bytes)).abs() < 0.1, "{bytes}");
    prefill.let_go().await;

    // Several answers and a stream from one transferred cache.
    let prompt = &prompts()[1];
    let alone = recompute.text(prompt, json!({})).await;
    let twice = json!({"n": 2, "temperature": 1, "seed": 7});
    let texts = |answer: &Value| -> Vec<Value> {
        answer["choices"].as_array().unwrap().iter().map(|choice| choice["text"].clone()).collect()
    };
    let (_, expected) = recompute.ask(prompt, twice.clone()).await;
    let mut divided = prefill.prefill(prompt).await;
    divided.as_object_mut().unwrap().extend(twice.as_object().unwrap().clone());
    let (_, answer) = decode.ask(prompt, divided).await;
    assert_eq!(texts(&answer), texts(&expected));
    let mut streamed = prefill.prefill(prompt).await;
    streamed.as_object_mut().unwrap().extend(
        json!({"model": "m", "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": true, "stream": true})
            .as_object()
            .unwrap()
            .clone(),
    );
    let request = decode.client.post(format!("{}/v1/completions", decode.url)).json(&streamed);
    let stream = request.send().await.unwrap().text().await.unwrap();
    let streamed_text: String = stream
        .split("\n\n")
        .filter_map(|chunk| serde_json::from_str::<Value>(chunk.strip_prefix("data: ")?).ok())
        .map(|chunk| chunk["choices"][0]["text"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(streamed_text, alone);

    // Each engine refuses the other's half of a request.
    let (status, answer) =
        prefill.ask(prompt, json!({"kv_transfer_params": {"do_remote_prefill": true}})).await;
    assert_eq!(status, 400, "{answer}");
    let (status, answer) =
        decode.ask(prompt, json!({"kv_transfer_params": {"do_remote_decode": true}})).await;
    assert_eq!(status, 400, "{answer}");

    // The engine with the cache is killed. The decoder's policy decides the result of the request.
    let params = prefill.prefill(prompt).await;
    prefill.kill();
    let (status, answer) = decode.ask(prompt, params.clone()).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(status == 500 && message.starts_with("KV cache load failed: cannot reach"), "{answer}");
    assert_eq!(recompute.text(prompt, params).await, alone);
    assert!((recompute.metric("vllm:nixl_num_failed_transfers_total").await - 1.0).abs() < 0.1);

    // An engine that ends serves nobody any more, but waits until its prompts were fetched.
    let params = recompute.prefill(prompt).await;
    recompute.terminate().await;
    assert_eq!(decode.text(prompt, params).await, alone);
    assert!(recompute.process.wait().unwrap().success());
}

#[tokio::test]
async fn mismatches_between_engines_are_explained() {
    let Some(model) = model() else { return };
    let _turn = TURN.lock().await;
    let prefill = Engine::start(&model, 4, "kv_both", &[], &[]);
    // The same model with another last byte.
    let folder = tempfile::tempdir().unwrap();
    let changed = folder.path().join("changed.gguf");
    let mut bytes = std::fs::read(&model).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&changed, bytes).unwrap();
    let others = [
        (
            Engine::start(&model, 5, "kv_both", &["--block-size", "32"], &[]),
            "the tokens of a block (--block-size) differ: 32",
        ),
        (Engine::start(&changed, 6, "kv_both", &[], &[]), "the models' weights differ"),
        (
            Engine::start(&model, 7, "kv_both", &[], &[("LONGBOAT_KV_TOKEN", "another secret altogether")]),
            "has another secret",
        ),
    ];
    prefill.ready().await;
    let prompt = &prompts()[1];
    for (other, words) in &others {
        other.ready().await;
        let (status, answer) = other.ask(prompt, prefill.prefill(prompt).await).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(status == 500 && message.contains(words), "{answer}");
    }
    let (fits, _) = &others[0];
    let mut elsewhere = prefill.prefill(prompt).await;
    elsewhere["kv_transfer_params"]["remote_host"] = "192.0.2.1".into();
    let (_, answer) = fits.ask(prompt, elsewhere).await;
    assert!(answer.to_string().contains("`192.0.2.1` is not a loopback address"), "{answer}");
}

#[tokio::test]
async fn unfetched_prompts_are_released() {
    let Some(model) = model() else { return };
    let _turn = TURN.lock().await;
    let short = json!({"kv_connector": "NixlConnector", "kv_role": "kv_both",
        "kv_connector_extra_config": {"kv_lease_duration": 1}});
    let prefill = Engine::start(&model, 8, "kv_both", &["--kv-transfer-config", &short.to_string()], &[]);
    // A cache of 16 blocks. Half of them may be kept for others.
    let small = ["--max-model-len", "128", "--kv-cache-memory-bytes", "12000000"];
    let full = Engine::start(&model, 9, "kv_both", &small, &[]);
    prefill.ready().await;
    full.ready().await;
    prefill.prefill(&prompts()[1]).await;
    prefill.let_go().await;
    assert!((prefill.metric("vllm:nixl_num_kv_expired_reqs_total").await - 1.0).abs() < 0.1);

    // More prompts than the cache can hold, and none is fetched: the oldest are dropped, and all requests are answered.
    for start in 0..6 {
        let prompt: Vec<u32> = (0..64).map(|token| 1000 + start * 600 + token).collect();
        full.prefill(&prompt).await;
    }
    assert!((full.metric("vllm:nixl_num_kv_expired_reqs_total").await - 4.0).abs() < 0.1);
    // A request that needs all blocks gets them.
    let prompt: Vec<u32> = (1000..1120).collect();
    full.text(&prompt, json!({"max_tokens": 8})).await;
}
