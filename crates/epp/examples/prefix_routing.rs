//! Compares precise, approximate and random prefix routing on engines whose caches evict.
//!
//! Four simulated engines serve sessions that grow turn by turn. The engines' caches hold about half of all sessions. With two
//! pickers, requests alternate between them, as behind a load balancer of active-active replicas, so each picker sees half of
//! the requests. Each policy has its own engines and pickers. The output contains, for each policy, the share of prompt tokens
//! that were cached, the time to the first token, and the part of it that the pick took.
//!
//! `cargo run -p longboat-epp --example prefix_routing [SESSIONS TURNS PICKERS]`

use std::{
    io::Write as _,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use longboat_epp::{Args, Server};
use longboat_extproc::{Action, Client, Event, Headers, names};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const ENGINES: u8 = 4;
/// The tokens that all sessions share, the tokens that each session starts with, and the tokens that each turn adds.
const SYSTEM: usize = 160;
const FIRST: usize = 480;
const MORE: usize = 160;
const BLOCK: usize = 16;
const ANSWER: u32 = 16;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    picker: Args,
}

#[derive(Clone, Copy)]
enum Policy {
    Precise,
    Approximate,
    Random,
}

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Self::Precise => "precise",
            Self::Approximate => "approximate",
            Self::Random => "random",
        }
    }

    /// The plugins and weights of KServe's sample for precise prefixes, with the prefix producer of this policy.
    fn plugins(self, tokenizer: SocketAddr, live: u16, replay: u16) -> String {
        let load = "- {type: queue-scorer}\n- {type: kv-cache-utilization-scorer}\n- {type: active-request-scorer}\n";
        let weights = "{pluginRef: queue-scorer, weight: 2}, {pluginRef: kv-cache-utilization-scorer, weight: 2}, \
                       {pluginRef: prefix-cache-scorer, weight: 3}, {pluginRef: active-request-scorer, weight: 3}";
        match self {
            Self::Precise => format!(
                "- {{type: token-producer, parameters: {{modelName: m, vllm: {{url: 'http://{tokenizer}'}}}}}}
- type: precise-prefix-cache-producer
  parameters:
    speculativeIndexing: true
    kvEventsConfig: {{podDiscoveryConfig: {{socketPort: {live}, replaySocketPort: {replay}}}}}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: precise-prefix-cache-producer}}}}
{load}schedulingProfiles: [{{name: default, plugins: [{weights}]}}]\n"
            ),
            Self::Approximate => {
                format!("- {{type: prefix-cache-scorer}}\n{load}schedulingProfiles: [{{name: default, plugins: [{weights}]}}]\n")
            }
            Self::Random => {
                "- {type: random-picker}\nschedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]\n"
                    .to_owned()
            }
        }
    }
}

#[derive(Default)]
struct Measured {
    prompt: u64,
    cached: u64,
    first: Vec<Duration>,
    picks: Vec<Duration>,
    requests: Vec<(SocketAddr, u64)>,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut given = std::env::args().skip(1).map(|number| number.parse());
    let sessions: usize = given.next().transpose()?.unwrap_or(32);
    let turns: usize = given.next().transpose()?.unwrap_or(6);
    let pickers: usize = given.next().transpose()?.unwrap_or(2).max(1);
    let mut out = std::io::stdout();
    writeln!(out, "{sessions} sessions of {turns} turns, {ENGINES} engines, {pickers} pickers")?;
    writeln!(out, "policy       cached   TTFT P50   P90      pick P50  requests per engine")?;
    for policy in [Policy::Precise, Policy::Approximate, Policy::Random] {
        let mut measured = run(policy, sessions, turns, pickers).await?;
        measured.first.sort_unstable();
        measured.picks.sort_unstable();
        let at = |times: &[Duration], percent: usize| times[(times.len() - 1) * percent / 100].as_millis();
        let counts: Vec<String> = measured.requests.iter().map(|(_, count)| count.to_string()).collect();
        writeln!(
            out,
            "{:<12} {:>5} %  {:>5} ms  {:>5} ms  {:>5} ms   {}",
            policy.name(),
            100 * measured.cached / measured.prompt.max(1),
            at(&measured.first, 50),
            at(&measured.first, 90),
            at(&measured.picks, 50),
            counts.join(" ")
        )?;
    }
    Ok(())
}

async fn run(policy: Policy, sessions: usize, turns: usize, pickers: usize) -> Result<Measured, BoxError> {
    longboat_tls::install_default_provider();
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    // All engines use the same two ports, each on its own address.
    let (live, replay) = (free_port().await?, free_port().await?);
    // About half of the blocks of all sessions at their end.
    let blocks = sessions * (FIRST + MORE * turns) / BLOCK / 2 / usize::from(ENGINES);
    let mut engines = Vec::new();
    for number in 0..ENGINES {
        engines.push(engine(number, blocks, live, replay, &stop).await?);
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("endpoints.yaml");
    let list: Vec<Value> = engines
        .iter()
        .enumerate()
        .map(|(number, engine)| {
            json!({"name": format!("e{number}"), "address": engine.ip(), "port": engine.port().to_string()})
        })
        .collect();
    std::fs::write(&file, json!({"endpoints": list}).to_string())?;
    let config = format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- {{type: file-discovery, parameters: {{path: '{}'}}}}\n\
         {}dataLayer: {{discovery: {{pluginRef: file-discovery}}}}\n",
        file.display(),
        policy.plugins(engines[0], live, replay)
    );
    let mut started = Vec::new();
    for _ in 0..pickers {
        started.push(picker(&config, &stop).await?);
    }
    let pickers = Arc::new(started);
    // In this time every picker scrapes the metrics of every endpoint and subscribes to its events.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let http: Http<HttpConnector, Full<Bytes>> = Http::builder(TokioExecutor::new()).build_http();
    let mut tasks = JoinSet::new();
    for session in 0..sessions {
        let (pickers, http) = (Arc::clone(&pickers), http.clone());
        tasks.spawn(async move {
            let mut random = StdRng::seed_from_u64(session as u64);
            let mut done = Vec::new();
            let mut prompt = words("system", SYSTEM);
            prompt += &words(&format!("s{session}x"), FIRST - SYSTEM);
            for turn in 0..turns {
                tokio::time::sleep(Duration::from_millis(random.random_range(100..1500))).await;
                done.push(request(&pickers[(session + turn) % pickers.len()], &http, &prompt).await?);
                prompt += &words(&format!("s{session}t{turn}x"), MORE);
            }
            Ok::<_, BoxError>(done)
        });
    }
    let mut measured =
        Measured { requests: engines.iter().map(|engine| (*engine, 0)).collect(), ..Measured::default() };
    while let Some(done) = tasks.join_next().await {
        for (engine, [first, pick], prompt, cached) in done?? {
            measured.first.push(first);
            measured.picks.push(pick);
            measured.prompt += prompt;
            measured.cached += cached;
            if let Some(count) = measured.requests.iter_mut().find(|(known, _)| *known == engine) {
                count.1 += 1;
            }
        }
    }
    Ok(measured)
}

/// Creates words of one token each.
fn words(name: &str, count: usize) -> String {
    (0..count).fold(String::new(), |text, number| text + " " + name + &number.to_string())
}

async fn free_port() -> Result<u16, BoxError> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port())
}

async fn engine(
    number: u8,
    blocks: usize,
    live: u16,
    replay: u16,
    stop: &CancellationToken,
) -> Result<SocketAddr, BoxError> {
    let ip = IpAddr::from([127, 0, 2, number + 1]);
    let listener = TcpListener::bind((ip, 0)).await?;
    let address = listener.local_addr()?;
    let events = json!({
        "enable_kv_cache_events": true, "publisher": "zmq", "topic": format!("kv@{address}@m"),
        "endpoint": format!("tcp://*:{live}"), "replay_endpoint": format!("tcp://*:{replay}"),
    });
    let (host, blocks, block, events) =
        (ip.to_string(), blocks.to_string(), BLOCK.to_string(), events.to_string());
    let arguments = [
        "m",
        "--host",
        &host,
        "--max-model-len",
        "16384",
        "--max-num-seqs",
        "64",
        "--kv-cache-size",
        &blocks,
        "--block-size",
        &block,
        "--time-to-first-token",
        "15ms",
        "--prefill-time-per-token",
        "500us",
        "--inter-token-latency",
        "6ms",
        "--kv-events-config",
        &events,
    ];
    let args = longboat_sim::Args::simulator(&arguments)?;
    let stop = stop.clone();
    tokio::spawn(async move { longboat_sim::serve(args, listener, stop).await });
    Ok(address)
}

async fn picker(config: &str, stop: &CancellationToken) -> Result<Client, BoxError> {
    let flags = [
        "epp",
        "--grpc-port=0",
        "--grpc-health-port=0",
        "--metrics-port=0",
        "--secure-serving=false",
        "--config-text",
        config,
    ];
    let mut args = Program::try_parse_from(flags)?.picker;
    "127.0.0.1".clone_into(&mut args.bind_address);
    let server = Server::bind(args).await?;
    let address = server.grpc_address;
    tokio::spawn(server.run(None, stop.clone()));
    Ok(Client::new(address, None))
}

/// Sends a request. Returns its endpoint, the times of its pick and its first token, its prompt tokens, and how many of them
/// were cached.
async fn request(
    picker: &Client,
    http: &Http<HttpConnector, Full<Bytes>>,
    prompt: &str,
) -> Result<(SocketAddr, [Duration; 2], u64, u64), BoxError> {
    let body = Bytes::from(
        json!({
            "model": "m", "prompt": prompt, "max_tokens": ANSWER, "stream": true,
            "stream_options": {"include_usage": true},
        })
        .to_string(),
    );
    let began = Instant::now();
    let mut exchange = picker.open().await?;
    let mut headers = Headers::new();
    headers.push(":method", "POST");
    headers.push(":path", "/v1/completions");
    exchange.send(Event::RequestHeaders { headers, end_of_stream: false }).await?;
    exchange.send(Event::RequestBody { body: body.clone(), end_of_stream: true }).await?;
    let reply = exchange.receive().await?.ok_or("the picker said nothing")?;
    let pick = began.elapsed();
    let Action::RequestHeaders(changes) = &reply.action else { return Err("the picker refused".into()) };
    let engine: SocketAddr = changes.get(names::DESTINATION).ok_or("no destination")?.parse()?;
    let sent = http::Request::post(format!("http://{engine}/v1/completions"))
        .header("content-type", "application/json")
        .body(Full::new(body))?;
    let mut answer = http.request(sent).await?.into_body();
    let (mut first, mut text) = (None, Vec::new());
    while let Some(frame) = answer.frame().await {
        if let Ok(data) = frame?.into_data() {
            first.get_or_insert_with(|| began.elapsed());
            text.extend_from_slice(&data);
        }
    }
    // The request counts as in flight until here.
    drop(exchange);
    let text = String::from_utf8(text)?;
    let usage = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .find_map(|chunk| chunk.get("usage").filter(|usage| usage.is_object()).cloned())
        .ok_or("the engine reported no usage")?;
    let number = |pointer| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    Ok((
        engine,
        [first.ok_or("no token came")?, pick],
        number("/prompt_tokens"),
        number("/prompt_tokens_details/cached_tokens"),
    ))
}
