//! The sidecar with two simulators and every connector. One engine computes the prompt and the other decodes. The tests also
//! cover the failures of each connector.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args as _, FromArgMatches};
use longboat_sidecar::{Args, run};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::{CancellationToken, DropGuard};

const CHAT: &str = "/v1/chat/completions";

/// The header of a simulator's answer that names the engine whose cache was used.
const SOURCE: &str = "x-simulated-kv-source";

struct Engine {
    address: SocketAddr,
    _end: DropGuard,
}

impl Engine {
    async fn start(arguments: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let port = address.port().to_string();
        let args = [&["m", "--port", &port], arguments].concat();
        let args = longboat_sim::Args::simulator(&args).unwrap();
        let end = CancellationToken::new();
        tokio::spawn(longboat_sim::serve(args, listener, end.clone()));
        Self { address, _end: end.drop_guard() }
    }

    async fn metric(&self, name: &str) -> f64 {
        let page = reqwest::get(format!("http://{}/metrics", self.address)).await.unwrap();
        let page = page.text().await.unwrap();
        let line = page.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in\n{page}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// The number of prompts that this engine has computed.
    async fn computed(&self) -> f64 {
        self.metric("vllm:time_to_first_token_seconds_count").await
    }
}

struct World {
    prefill: Engine,
    decode: Engine,
    sidecar: u16,
    client: reqwest::Client,
    _end: DropGuard,
}

struct Answer {
    status: u16,
    source: Option<String>,
    body: Value,
}

impl World {
    async fn start(way: &Way, sidecar: &[&str], decode: &[&str]) -> Self {
        longboat_tls::install_default_provider();
        let prefill = Engine::start(&way.prefill).await;
        let decode = Engine::start(&[&way.decode[..], decode].concat()).await;
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let mut flags = vec![
            format!("--port={port}"),
            format!("--model-server-port={}", decode.address.port()),
            "--secure-proxy=false".to_owned(),
        ];
        let bootstrap = prefill.address.port().to_string();
        flags.extend(way.sidecar.iter().chain(sidecar).map(|flag| flag.replace("{prefill}", &bootstrap)));
        let command = Args::augment_args(clap::Command::new("sidecar").no_binary_name(true));
        let matches = command.try_get_matches_from(flags).unwrap();
        let mut args = Args::from_arg_matches(&matches).unwrap();
        args.address = Some([127, 0, 0, 1].into());
        let end = CancellationToken::new();
        tokio::spawn(run(args, end.clone()));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let world = Self { prefill, decode, sidecar: port, client, _end: end.drop_guard() };
        let health = format!("http://127.0.0.1:{port}/health");
        for _ in 0..500 {
            if world.client.get(&health).send().await.is_ok() {
                return world;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the sidecar does not answer");
    }

    fn request(&self, body: &Value) -> reqwest::RequestBuilder {
        let url = format!("http://127.0.0.1:{}{CHAT}", self.sidecar);
        self.client.post(url).header("x-prefiller-host-port", self.prefill.address.to_string()).json(body)
    }

    async fn ask(&self, body: &Value) -> Answer {
        let answer = self.request(body).send().await.unwrap();
        let source = answer.headers().get(SOURCE).map(|source| source.to_str().unwrap().to_owned());
        Answer { status: answer.status().as_u16(), source, body: answer.json().await.unwrap() }
    }
}

/// A connector, and the flags for the three processes.
struct Way {
    name: &'static str,
    sidecar: Vec<&'static str>,
    prefill: Vec<&'static str>,
    decode: Vec<&'static str>,
}

fn way(name: &'static str, sidecar: &[&'static str]) -> Way {
    Way { name, sidecar: sidecar.to_vec(), prefill: Vec::new(), decode: Vec::new() }
}

/// The connectors whose decoders are told, or know, that the prompt is computed elsewhere.
fn ways() -> Vec<Way> {
    let write = ["--moriio-write-mode", "--moriio-local-pod-ip=127.0.0.1"];
    vec![
        way("nixlv2", &[]),
        way("nixlv2 in chunks", &["--decode-chunk-size=4"]),
        way("MoRI-IO", &write),
        way("MoRI-IO at once", &[&write[..], &["--moriio-parallel-dispatch"]].concat()),
        way("mooncake", &["--kv-connector=mooncake", "--mooncake-bootstrap-port={prefill}"]),
        way("offloading", &["--kv-connector=offloading"]),
        Way {
            name: "sglang",
            sidecar: vec!["--kv-connector=sglang"],
            prefill: vec!["--disaggregation-mode", "prefill"],
            decode: vec!["--disaggregation-mode", "decode"],
        },
    ]
}

fn chat() -> Value {
    let prompt = "Why is the sea salty, and the rain is not? ".repeat(10);
    json!({"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": 12, "seed": 1})
}

/// Waits until the prefiller has computed prompts. The client's response does not wait for the prefiller.
async fn until_computed(engine: &Engine, prompts: f64) {
    for _ in 0..500 {
        if engine.computed().await >= prompts {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{prompts} prompts were to be computed");
}

#[tokio::test]
async fn one_engine_computes_the_prompt_and_the_other_decodes() {
    for way in ways() {
        let world = World::start(&way, &[], &[]).await;
        let answer = world.ask(&chat()).await;
        assert_eq!(answer.status, 200, "{}: {}", way.name, answer.body);
        if !way.name.contains("chunks") {
            assert_eq!(answer.source.as_deref(), Some("127.0.0.1"), "{}", way.name);
            assert!(answer.body["usage"]["completion_tokens"].as_u64() > Some(1), "{}", way.name);
            until_computed(&world.prefill, 1.0).await;
            assert!(world.decode.computed().await < 1.0, "{}: two prefills", way.name);
        }
        assert_eq!(answer.body["usage"]["completion_tokens"], 12, "{}", way.name);
    }
}

#[tokio::test]
async fn a_cache_that_does_not_come_costs_a_second_prefill_and_nobody_says_so() {
    for way in ways() {
        let world = World::start(&way, &[], &["--kv-transfer-loss-rate", "100"]).await;
        let answer = world.ask(&chat()).await;
        assert_eq!((answer.status, answer.source), (200, None), "{}", way.name);
        until_computed(&world.prefill, 1.0).await;
        assert!(world.decode.computed().await >= 1.0, "{}", way.name);
    }
}

#[tokio::test]
async fn without_a_prefiller_the_decoder_does_both_where_it_may() {
    for mut way in ways() {
        way.prefill.extend(["--failure-injection-rate", "100", "--failure-types", "server_error"]);
        // With this latency, decoders wait long for a cache.
        let world =
            World::start(&way, &["--decode-on-prefill-failure"], &["--kv-cache-transfer-latency", "2s"])
                .await;
        let answer = world.ask(&chat()).await;
        assert_eq!((answer.status, answer.source), (200, None), "{}: {}", way.name, answer.body);
        let world = World::start(&way, &[], &[]).await;
        let answer = world.ask(&chat()).await;
        let is_told = matches!(way.name, "mooncake" | "offloading" | "sglang");
        assert_eq!(answer.status, if is_told { 200 } else { 503 }, "{}", way.name);
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_both_legs() {
    for mut way in ways() {
        way.prefill.extend(["--time-to-first-token", "60s"]);
        let world = World::start(&way, &[], &["--kv-cache-transfer-latency", "60s"]).await;
        let running = "vllm:num_requests_running";
        let asking = tokio::spawn(world.request(&chat()).send());
        for _ in 0..500 {
            if world.prefill.metric(running).await > 0.0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(world.prefill.metric(running).await > 0.0, "{}", way.name);
        asking.abort();
        let mut left = f64::MAX;
        for _ in 0..500 {
            left = world.prefill.metric(running).await + world.decode.metric(running).await;
            if left < 1.0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(left < 1.0, "{}: {left} legs go on", way.name);
    }
}

#[tokio::test]
async fn the_first_piece_of_an_answer_leaves_when_it_arrives() {
    let mut all = ways();
    all.push(way("shared-storage", &["--kv-connector=shared-storage"]));
    for way in all.into_iter().filter(|way| !way.name.contains("chunks")) {
        let world = World::start(&way, &[], &["--inter-token-latency", "300s"]).await;
        let mut request = chat();
        request["stream"] = json!(true);
        let mut answer = world.request(&request).send().await.unwrap();
        let first = answer.chunk().await.unwrap().unwrap();
        assert!(first.starts_with(b"data: {"), "{}: {first:?}", way.name);
        let running = world.decode.metric("vllm:num_requests_running").await;
        assert!(running > 0.0, "{}: the rest is still to come", way.name);
    }
}

#[tokio::test]
async fn a_body_that_has_to_be_held_has_a_limit_and_one_that_is_passed_on_has_none() {
    let world = World::start(&way("nixlv2", &["--max-request-body-mib=1"]), &[], &[]).await;
    let mut request = chat();
    request["unknown"] = json!("x".repeat(1 << 20));
    let refused = world.ask(&request).await;
    assert_eq!((refused.status, &refused.body["code"]), (413, &json!(413)), "{}", refused.body);
    assert!(world.prefill.computed().await < 1.0 && world.decode.computed().await < 1.0);
    // A request without `Content-Length`.
    let pieces = request.to_string().into_bytes();
    let pieces = pieces.chunks(1 << 16).map(|piece| Ok::<_, std::io::Error>(piece.to_vec()));
    let stream = futures::stream::iter(pieces.collect::<Vec<_>>());
    let chunked = world.request(&json!({})).body(reqwest::Body::wrap_stream(stream)).send().await.unwrap();
    assert_eq!(chunked.status(), 413);
    let url = format!("http://127.0.0.1:{}{CHAT}", world.sidecar);
    let passed = world.client.post(url).json(&request).send().await.unwrap();
    assert_eq!(passed.status(), 200, "the engine's own limit counts");
}

#[tokio::test]
async fn an_unknown_rank_is_refused_before_any_engine_is_asked() {
    let world = World::start(&way("nixlv2", &["--data-parallel-size=2"]), &[], &[]).await;
    let asked =
        world.request(&chat()).header("x-data-parallel-host-port", "10.9.9.9:1").send().await.unwrap();
    assert_eq!(asked.status(), 400);
    assert!(asked.text().await.unwrap().contains("x-data-parallel-host-port"));
    assert!(world.prefill.computed().await < 1.0 && world.decode.computed().await < 1.0);
}

/// Engines that share a private folder.
fn sharing() -> (Way, PathBuf) {
    let folder = std::env::temp_dir().join(format!("longboat-{}", uuid::Uuid::new_v4()));
    let config = json!({"kv_connector_extra_config": {"shared_storage_path": folder}}).to_string();
    let config: &'static str = config.leak();
    let way = Way {
        name: "shared-storage",
        sidecar: vec!["--kv-connector=shared-storage"],
        prefill: vec!["--kv-transfer-config", config],
        decode: vec!["--kv-transfer-config", config],
    };
    (way, folder)
}

#[tokio::test]
async fn what_is_in_a_shared_storage_and_does_not_come_is_computed_again() {
    let (way, folder) = sharing();
    let world = World::start(&way, &[], &["--kv-transfer-loss-rate", "100"]).await;
    for threshold in [None, Some(0.5)] {
        let mut request = chat();
        request["messages"][0]["content"] =
            json!(format!("{threshold:?} {}", "Why is the sea salty? ".repeat(20)));
        if let Some(threshold) = threshold {
            request["cache_hit_threshold"] = json!(threshold);
        }
        let answer = world.ask(&request).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.body["choices"][0]["finish_reason"], "length", "{}", answer.body);
        assert_eq!(answer.body["usage"]["prompt_tokens_details"]["cached_tokens"], 0, "{}", answer.body);
    }
    assert!((world.prefill.computed().await - 2.0).abs() < 0.5, "each prompt was computed elsewhere");
    remove(&folder);
}

#[tokio::test]
async fn engines_that_share_a_storage_find_the_prompt_there() {
    let (way, folder) = sharing();
    let world = World::start(&way, &[], &[]).await;
    let mut request = chat();
    request["cache_hit_threshold"] = json!(0.5);
    for prefills in [1.0, 1.0] {
        let answer = world.ask(&request).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.body["choices"][0]["finish_reason"], "length", "{}", answer.body);
        let cached = &answer.body["usage"]["prompt_tokens_details"]["cached_tokens"];
        assert!(cached.as_u64() > Some(16), "{}", answer.body);
        assert!((world.prefill.computed().await - prefills).abs() < 0.5, "the second request is cached");
    }
    remove(&folder);
}

fn remove(folder: &Path) {
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_decoder_pulls_from_where_the_prompt_is_cached() {
    let world = World::start(&way("offloading", &["--kv-connector=offloading"]), &[], &[]).await;
    let url = format!("http://127.0.0.1:{}{CHAT}", world.sidecar);
    let pulled = world.client.post(url).header("x-kv-cache-source-host-port", "10.9.9.9:8000").json(&chat());
    let pulled = pulled.send().await.unwrap();
    assert_eq!(pulled.headers().get(SOURCE).unwrap(), "10.9.9.9");
}

/// Sends these bytes and returns the status codes of all responses, up to the end of the connection.
async fn raw(port: u16, bytes: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers).await;
    let answers = String::from_utf8_lossy(&answers).into_owned();
    answers.split("HTTP/1.").skip(1).map(|answer| answer[2..5].to_owned()).collect()
}

#[tokio::test]
async fn a_request_with_several_meanings_is_refused_and_what_follows_it_is_not_read() {
    let world = World::start(&way("nixlv2", &[]), &[], &[]).await;
    let smuggled = "0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n";
    let (length, chunked) = (format!("Content-Length: {}", smuggled.len()), "Transfer-Encoding: chunked");
    let fine = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
    let last = "GET /v1/models HTTP/1.0\r\n\r\n";
    for path in [CHAT, "/v1/models", "/health"] {
        for lines in [
            format!("Host: a\r\n{length}\r\n{chunked}"),
            format!("Host: a\r\n{chunked}\r\n{length}"),
            // A head that is longer than the part that the gateway examines.
            format!("Host: a\r\n{length}\r\nX: {}\r\n{chunked}", "x".repeat(700 << 10)),
            "Host: a\r\nHost: b".to_owned(),
            "X: a".to_owned(),
            "Host: a@b".to_owned(),
        ] {
            let asked = format!("{fine}POST {path} HTTP/1.1\r\n{lines}\r\n\r\n{smuggled}{fine}");
            assert_eq!(
                raw(world.sidecar, &asked).await,
                ["200", "400"],
                "{path}: {}",
                &lines[..lines.len().min(60)]
            );
        }
        let other = format!("GET http://b{path} HTTP/1.1\r\nHost: a\r\n\r\n{fine}");
        assert_eq!(raw(world.sidecar, &other).await, ["400"], "{path}");
    }
    assert!(world.prefill.computed().await < 1.0 && world.decode.computed().await < 1.0);
    let asked =
        format!("POST /v1/completions HTTP/1.1\r\nHost: a\r\n{chunked}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n{last}");
    assert_eq!(
        raw(world.sidecar, &asked).await,
        ["400", "200"],
        "the engine refuses it, and the next one is read"
    );
}
