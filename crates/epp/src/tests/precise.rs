//! Precise prefixes, with simulated model servers that publish the contents of their caches.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use longboat_extproc::{Action, Event, names};
use longboat_sim::Args;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    service::{PickerFixture, start},
    support,
};

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A model server with a cache of eight blocks, so that it evicts.
struct Engine {
    address: SocketAddr,
    stop: Option<DropGuard>,
    task: JoinHandle<()>,
}

impl Engine {
    /// Publishes at `endpoint`, in which `*` stands for the server's own address.
    async fn start(address: SocketAddr, endpoint: &str, replay: Option<u16>, topic: &str) -> Self {
        longboat_tls::install_default_provider();
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = json!({
            "enable_kv_cache_events": true, "publisher": "zmq", "topic": topic, "endpoint": endpoint,
            "replay_endpoint": replay.map(|port| format!("tcp://*:{port}")),
        });
        let (host, config) = (address.ip().to_string(), config.to_string());
        let arguments = [
            "m",
            "--host",
            &host,
            "--kv-cache-size",
            "8",
            "--block-size",
            "16",
            "--kv-events-config",
            &config,
        ];
        let args = Args::simulator(&arguments).unwrap();
        let stop = CancellationToken::new();
        let token = stop.clone();
        let task = tokio::spawn(async move { longboat_sim::serve(args, listener, token).await.unwrap() });
        Self { address, stop: Some(stop.drop_guard()), task }
    }

    async fn end(mut self) {
        self.stop.take();
        self.task.await.unwrap();
    }

    /// Computes an answer of one token.
    async fn complete(&self, prompt: &str) {
        let body = json!({"model": "m", "prompt": prompt, "max_tokens": 1}).to_string();
        let request = http::Request::post(format!("http://{}/v1/completions", self.address))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let response = client.request(request).await.unwrap();
        assert!(response.status().is_success());
        response.into_body().collect().await.unwrap();
    }
}

/// A prompt of `tokens` tokens that no other prompt has.
fn prompt(name: &str, tokens: usize) -> String {
    (0..tokens).map(|number| format!("{name}{number}")).collect::<Vec<_>>().join(" ")
}

fn at(last: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::from([127, 0, 0, last]), 0)
}

/// A picker of two engines that scores by prefixes only.
async fn picker(folder: &std::path::Path, engines: [&Engine; 2], events: &str) -> PickerFixture {
    let (endpoints, config) = (folder.join("endpoints.yaml"), folder.join("config.yaml"));
    let [a, b] = engines.map(|engine| engine.address);
    let list = json!({"endpoints": [
        {"name": "a", "address": a.ip(), "port": a.port().to_string()},
        {"name": "b", "address": b.ip(), "port": b.port().to_string()},
    ]});
    std::fs::write(&endpoints, list.to_string()).unwrap();
    let text = format!(
        "apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {{type: token-producer, parameters: {{modelName: m, vllm: {{url: 'http://{a}', timeout: 20s}}}}}}
- {{type: precise-prefix-cache-producer, parameters: {{kvEventsConfig: {events}}}}}
- {{type: prefix-cache-scorer, parameters: {{prefixMatchInfoProducerName: precise-prefix-cache-producer}}}}
- {{type: file-discovery, parameters: {{path: '{}'}}}}
dataLayer: {{injectDefaults: false, discovery: {{pluginRef: file-discovery}}}}
",
        endpoints.display()
    );
    std::fs::write(&config, text).unwrap();
    let config = format!("--config-file={}", config.display());
    let picker = start(&[&config, "--secure-serving=false", "--emit-endpoint-scores"], None).await;
    picker.ready().await;
    picker
}

/// Returns the destination of a prompt, and each endpoint's score, which is the share of the prompt that it holds.
async fn pick(picker: &PickerFixture, body: &Value) -> (String, Value) {
    let mut exchange = picker.client.open().await.unwrap();
    let path = if body.get("messages").is_some() { "/v1/chat/completions" } else { "/v1/completions" };
    let headers = support::request_headers("POST", path, &[]);
    exchange.send(Event::RequestHeaders { headers, end_of_stream: false }).await.unwrap();
    let body = Bytes::from(body.to_string());
    exchange.send(Event::RequestBody { body, end_of_stream: true }).await.unwrap();
    let reply = timeout(TEST_TIMEOUT, exchange.receive()).await.unwrap().unwrap().unwrap();
    let Action::RequestHeaders(changes) = &reply.action else { panic!("{reply:?}") };
    let scores = reply.metadata.get(names::LB_NAMESPACE, names::DESTINATION_SCORES).unwrap().clone();
    (changes.get(names::DESTINATION).unwrap().to_owned(), scores)
}

/// Waits until the index says that the first engine holds the share `a` of a prompt, and the second the share `b`.
async fn until(picker: &PickerFixture, engines: [&Engine; 2], prompt: &str, expected: [f64; 2]) {
    let [a, b] = engines.map(|engine| engine.address.to_string());
    let wanted = json!({a.as_str(): expected[0], b.as_str(): expected[1]});
    let mut last = Value::Null;
    let reached = timeout(TEST_TIMEOUT, async {
        loop {
            let (destination, scores) = pick(picker, &json!({"model": "m", "prompt": prompt})).await;
            if scores == wanted {
                return destination;
            }
            last = scores;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let Ok(destination) = reached else { panic!("expected {wanted}, found {last}") };
    if expected[0] > expected[1] {
        assert_eq!(destination, a);
    } else if expected[0] < expected[1] {
        assert_eq!(destination, b);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_goes_to_the_engine_that_holds_it_until_it_is_evicted() {
    let (live, replay) = support::ports(&[at(2).ip(), at(3).ip()]).await;
    let publish = format!("tcp://*:{live}");
    let a = Engine::start(at(2), &publish, Some(replay), "kv@a@m").await;
    let b = Engine::start(at(3), &publish, Some(replay), "kv@b@m").await;
    let (one, other, third) = (prompt("one", 64), prompt("other", 64), prompt("third", 100));
    // This request comes before the picker subscribes. The picker learns of it by a replay after the next message.
    b.complete(&one).await;
    let folder = tempfile::tempdir().unwrap();
    let events = format!("{{podDiscoveryConfig: {{socketPort: {live}, replaySocketPort: {replay}}}}}");
    let picker = picker(folder.path(), [&a, &b], &events).await;
    let mut number = 0;
    timeout(TEST_TIMEOUT, async {
        while pick(&picker, &json!({"model": "m", "prompt": one})).await.1[b.address.to_string()]
            != json!(1.0)
        {
            b.complete(&prompt(&format!("short{number}"), 16)).await;
            b.complete(&one).await;
            number += 1;
        }
    })
    .await
    .unwrap();
    until(&picker, [&a, &b], &one, [0.0, 1.0]).await;
    until(&picker, [&a, &b], &other, [0.0, 0.0]).await;
    // Half of it is another prompt.
    let half = format!("{} {other}", prompt("one", 64));
    until(&picker, [&a, &b], &half, [0.0, 0.5]).await;
    a.complete(&other).await;
    // The first message of an engine may come before its subscriber is connected. The second message shows the gap.
    a.complete(&prompt("more", 16)).await;
    until(&picker, [&a, &b], &other, [1.0, 0.0]).await;
    // Prompts of tokens need no tokenizer. A chat is rendered with the chat template, so its tokens differ.
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": one}]});
    assert_eq!(pick(&picker, &chat).await.1[b.address.to_string()], json!(0.0));
    // 64 + 1 and 100 + 1 tokens do not fit into eight blocks of 16.
    b.complete(&third).await;
    until(&picker, [&a, &b], &third, [0.0, 1.0]).await;
    until(&picker, [&a, &b], &other, [1.0, 0.0]).await;
    timeout(TEST_TIMEOUT, async {
        while pick(&picker, &json!({"model": "m", "prompt": one})).await.1[b.address.to_string()]
            == json!(1.0)
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();

    // A restarted engine has an empty cache.
    let address = b.address;
    b.end().await;
    // Its ports are free a moment later.
    for port in [live, replay] {
        while TcpListener::bind((address.ip(), port)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let b = Engine::start(address, &publish, Some(replay), "kv@b@m").await;
    let fresh = prompt("fresh", 16);
    timeout(TEST_TIMEOUT, async {
        while pick(&picker, &json!({"model": "m", "prompt": fresh})).await.1[b.address.to_string()]
            != json!(1.0)
        {
            b.complete(&fresh).await;
            b.complete(&prompt(&format!("again{number}"), 112)).await;
            b.complete(&fresh).await;
            number += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    until(&picker, [&a, &b], &third, [0.0, 0.0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_picker_that_begins_anew_knows_what_engines_hold_before_they_say_more() {
    let (live, replay) = support::ports(&[at(2).ip(), at(3).ip()]).await;
    let publish = format!("tcp://*:{live}");
    let a = Engine::start(at(2), &publish, Some(replay), "kv@a@m").await;
    let b = Engine::start(at(3), &publish, Some(replay), "kv@b@m").await;
    let one = prompt("one", 64);
    b.complete(&one).await;
    let folder = tempfile::tempdir().unwrap();
    let events = format!("{{podDiscoveryConfig: {{socketPort: {live}, replaySocketPort: {replay}}}}}");
    for _ in 0..2 {
        let picker = picker(folder.path(), [&a, &b], &events).await;
        until(&picker, [&a, &b], &one, [0.0, 1.0]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_without_replays_holds_nothing_once_it_has_ended_whichever_side_connects() {
    let (port, _) = support::ports(&[at(1).ip(), at(2).ip(), at(3).ip()]).await;
    for (publish, events) in [
        (
            format!("tcp://127.0.0.1:{port}"),
            format!("{{zmqEndpoint: 'tcp://127.0.0.1:{port}', discoverPods: false}}"),
        ),
        (format!("tcp://*:{port}"), format!("{{podDiscoveryConfig: {{socketPort: {port}}}}}")),
    ] {
        let a = Engine::start(at(2), &publish, None, "kv@127.0.0.2@m").await;
        let b = Engine::start(at(3), &publish, None, "kv@127.0.0.3@m").await;
        let folder = tempfile::tempdir().unwrap();
        let picker = picker(folder.path(), [&a, &b], &events).await;
        let one = prompt("one", 32);
        let mut number = 0;
        timeout(TEST_TIMEOUT, async {
            while pick(&picker, &json!({"model": "m", "prompt": one})).await.1[b.address.to_string()]
                != json!(1.0)
            {
                // The prompt is evicted and computed again, so that its event is published again.
                b.complete(&prompt(&format!("filler{number}"), 112)).await;
                b.complete(&one).await;
                number += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .unwrap();
        until(&picker, [&a, &b], &one, [0.0, 1.0]).await;
        let address = b.address.to_string();
        b.end().await;
        timeout(TEST_TIMEOUT, async {
            while pick(&picker, &json!({"model": "m", "prompt": one})).await.1[&address] != json!(0.0) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap();
    }
}
