//! The built picker beside vLLM that publish what their caches hold, and a tokenizer of vLLM: what the picker predicts is what vLLM
//! finds.

use std::{process::Command, time::Duration};

use bytes::Bytes;
use longboat_extproc::{Action, Client, Event, Headers, names};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::{
    install::Install,
    server::{Process, Server, free_address},
};

/// How long a step may take that takes a moment.
const LIMIT: Duration = Duration::from_mins(1);
/// The number of prompts.
const PROMPTS: usize = 240;
/// The tokens of a block. On a CPU, vLLM wants a multiple of 32.
const BLOCK: u64 = 32;
/// The blocks of each engine: so few that it evicts most prompts.
const BLOCKS: &str = "64";

const WORDS: [&str; 16] = [
    "sea", "salt", "river", "wind", "stone", "boat", "harbour", "night", "lamp", "rope", "tide", "gull",
    "sail", "north", "rain", "anchor",
];

/// A picker, and its client.
struct Picker {
    client: Client,
    page: String,
    _process: Process,
    _folder: TempDir,
}

impl Picker {
    fn start(engines: &[Server], tokenizer: &Server, events: &Value) -> Self {
        let [address, metrics] = ["127.0.0.1"; 2].map(free_address);
        let folder = tempfile::tempdir().unwrap();
        let list: Vec<Value> = engines
            .iter()
            .map(|engine| {
                let (host, port) = (engine.address.ip(), engine.address.port().to_string());
                json!({"name": host.to_string(), "address": host, "port": port})
            })
            .collect();
        let file = folder.path().join("endpoints.json");
        std::fs::write(&file, json!({"endpoints": list}).to_string()).unwrap();
        let config = json!({
            "apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig",
            "plugins": [
                {"type": "token-producer", "parameters": {"modelName": "m", "vllm": {"url": tokenizer.url("")}}},
                {"type": "precise-prefix-cache-producer", "parameters": {
                    "tokenProcessorConfig": {"blockSizeTokens": BLOCK},
                    "kvEventsConfig": events}},
                {"type": "prefix-cache-scorer", "parameters": {
                    "prefixMatchInfoProducerName": "precise-prefix-cache-producer"}},
                {"type": "file-discovery", "parameters": {"path": file}},
            ],
            "dataLayer": {"discovery": {"pluginRef": "file-discovery"}},
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
        command.args(["epp", "--bind-address=127.0.0.1", "--grpc-health-port=0", "--secure-serving=false"]);
        command
            .args([format!("--grpc-port={}", address.port()), format!("--metrics-port={}", metrics.port())]);
        command.args(["--emit-endpoint-scores", "--config-text", &config.to_string()]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let page = format!("http://{metrics}/metrics");
        Self {
            client: Client::new(address, None),
            page,
            _process: Process::start(&mut command),
            _folder: folder,
        }
    }

    /// Returns the place of the engine that the picker chooses, and the share of the prompt that it holds.
    async fn pick(&self, engines: &[Server], path: &str, body: &Value) -> (usize, f64) {
        let mut exchange = self.client.open().await.unwrap();
        let mut headers = Headers::new();
        for (name, value) in [
            (":method", "POST"),
            (":path", path),
            (":scheme", "http"),
            (":authority", "x"),
            ("content-type", "application/json"),
        ] {
            headers.push(Bytes::from(name), Bytes::copy_from_slice(value.as_bytes()));
        }
        exchange.send(Event::RequestHeaders { headers, end_of_stream: false }).await.unwrap();
        let text = Bytes::from(body.to_string());
        exchange.send(Event::RequestBody { body: text, end_of_stream: true }).await.unwrap();
        let reply = timeout(LIMIT, exchange.receive()).await.unwrap().unwrap().unwrap();
        let Action::RequestHeaders(changes) = &reply.action else { panic!("{reply:?}") };
        let destination = changes.get(names::DESTINATION).unwrap();
        let scores = reply.metadata.get(names::LB_NAMESPACE, names::DESTINATION_SCORES).unwrap();
        let place = engines.iter().position(|engine| engine.address.to_string() == destination);
        (place.unwrap(), scores[destination].as_f64().unwrap())
    }

    /// Returns the value of one of its metrics.
    async fn metric(&self, name: &str) -> Option<f64> {
        let page = reqwest::get(&self.page).await.ok()?.text().await.ok()?;
        page.lines().find(|line| line.starts_with(name))?.rsplit(' ').next()?.parse().ok()
    }
}

/// Returns a request. Many begin alike, but for the model, the salt or the form.
fn request(random: &mut StdRng) -> (&'static str, Value) {
    let mut beginning = StdRng::seed_from_u64(random.random_range(0..4));
    let (shared, own) = (random.random_range(0..220), random.random_range(0..40));
    let words: Vec<&str> = (0..shared)
        .map(|_| WORDS[beginning.random_range(0..WORDS.len())])
        .chain((0..own).map(|_| WORDS[random.random_range(0..WORDS.len())]))
        .collect();
    let text = format!("The {}", words.join(" "));
    let mut body = json!({"model": "m", "max_tokens": 1, "temperature": 0});
    if random.random_bool(0.25) {
        body["model"] = "ada".into();
    }
    if random.random_bool(0.25) {
        body["cache_salt"] = "salt".into();
    }
    if random.random_bool(0.4) {
        body["messages"] = json!([{"role": "user", "content": text}]);
        return ("/v1/chat/completions", body);
    }
    body["prompt"] = text.into();
    ("/v1/completions", body)
}

/// Starts an engine at each address, and a picker. `published` has the addresses for the events of an engine, and `read` says where
/// the picker reads them. Then compares many prompts.
async fn compare(install: &Install, hosts: &[&str], published: &Value, read: &Value) {
    let adapter = format!("ada={}", install.folder("adapter").display());
    let mut engines: Vec<Server> = Vec::new();
    for host in hosts {
        let address = free_address(host);
        let mut events = published.clone();
        events["enable_kv_cache_events"] = true.into();
        events["publisher"] = "zmq".into();
        events["topic"] = format!("kv@{address}@m").into();
        let (events, block) = (events.to_string(), BLOCK.to_string());
        let flags = [
            "--dtype",
            "float32",
            "--enforce-eager",
            "--served-model-name",
            "m",
            "--max-model-len",
            "512",
            "--enable-prompt-tokens-details",
            "--block-size",
            &block,
            "--num-gpu-blocks-override",
            BLOCKS,
            "--enable-lora",
            "--lora-modules",
            &adapter,
            "--kv-events-config",
            &events,
        ];
        engines.push(Server::launch(install, &["serve"], address, "small", &flags));
    }
    for engine in &mut engines {
        engine.ready().await;
    }
    let flags = ["--served-model-name", "m", "--max-model-len", "512"];
    let mut tokenizer =
        Server::launch(install, &["launch", "render"], free_address("127.0.0.4"), "small", &flags);
    tokenizer.ready().await;
    let picker = Picker::start(&engines, &tokenizer, read);
    timeout(LIMIT, async {
        while picker.metric("llm_d_epp_ready_endpoints").await.map(|count| count.to_string())
            != Some(engines.len().to_string())
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .expect("the picker finds the metrics of all engines");

    // The first message of an engine may come before the picker has subscribed. The second one shows the gap.
    for (engine, word) in engines.iter().zip(WORDS) {
        let body = json!({"model": "m", "max_tokens": 1, "prompt": format!("{word} ").repeat(40)});
        timeout(LIMIT, async {
            while picker.pick(&engines, "/v1/completions", &body).await.1 < 1.0 {
                engine.post("/v1/completions", &body).await;
                let other = json!({"model": "m", "max_tokens": 1, "prompt": format!("{word} {word} salt ").repeat(20)});
                engine.post("/v1/completions", &other).await;
            }
        })
        .await
        .expect("the events of all engines arrive");
    }

    let mut random = StdRng::seed_from_u64(7);
    let (mut wrong, mut found, mut used) = (Vec::new(), 0, vec![0; engines.len()]);
    for number in 0..PROMPTS {
        let (path, body) = request(&mut random);
        let (place, share) = picker.pick(&engines, path, &body).await;
        used[place] += 1;
        let usage = engines[place].post(path, &body).await["usage"].take();
        let tokens = usage["prompt_tokens"].as_u64().unwrap();
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "a prompt has few blocks")]
        let blocks = (tokens / BLOCK) as f64;
        // vLLM computes at least the last token.
        let predicted = (0..=tokens / BLOCK)
            .find(|held| f64::from(u32::try_from(*held).unwrap()) >= share * blocks - 0.01);
        let predicted = predicted.unwrap().min((tokens - 1) / BLOCK) * BLOCK;
        found += usize::from(cached > 0);
        if predicted != cached {
            wrong.push(format!("{number}: predicted {predicted}, found {cached} of {tokens}: {path} {body}"));
        }
        // The events come after the answer.
        let arrived = async {
            while blocks > 0.0 && picker.pick(&engines, path, &body).await.1 < 1.0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LIMIT, arrived).await.unwrap_or_else(|_| panic!("no events of {number}: {path} {body}"));
    }
    assert!(wrong.is_empty(), "{} of {PROMPTS}:\n{}", wrong.len(), wrong.join("\n"));
    let evicted = picker.metric("kvcache_index_evictions_total").await.unwrap_or_default();
    assert!(
        found > PROMPTS / 3 && used.iter().all(|count| *count > 20) && evicted > 100.0,
        "too little was tested: {found} of {PROMPTS} prompts with a cached beginning, engines {used:?}, {evicted} blocks evicted"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_picker_to_which_engines_connect_predicts_is_what_they_find_in_their_caches() {
    let Some(install) = Install::find().await else { return };
    // vLLM connects to an address without `*`.
    let endpoint = format!("tcp://{}", free_address("127.0.0.1"));
    let hosts = ["127.0.0.2", "127.0.0.3"];
    compare(&install, &hosts, &json!({"endpoint": endpoint}), &json!({"zmqEndpoint": endpoint})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_picker_that_connects_to_an_engine_predicts_is_what_it_finds_in_its_cache() {
    let Some(install) = Install::find().await else { return };
    let [live, replay] = ["127.0.0.2"; 2].map(|host| free_address(host).port());
    let published =
        json!({"endpoint": format!("tcp://*:{live}"), "replay_endpoint": format!("tcp://*:{replay}")});
    let read = json!({"podDiscoveryConfig": {"socketPort": live, "replaySocketPort": replay}});
    compare(&install, &["127.0.0.2"], &published, &read).await;
}
