//! The sidecar in the test's process, with two simulators.

use std::{net::SocketAddr, time::Duration};

use clap::{Args as _, FromArgMatches};
use longboat_sidecar::{Args, run};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) const CHAT: &str = "/v1/chat/completions";

/// The header of a simulator's answer that names the engine whose cache was used.
pub(crate) const SOURCE: &str = "x-simulated-kv-source";

pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    _end: DropGuard,
}

impl Engine {
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let port = address.port().to_string();
        let args = [&["m", "--port", &port], arguments].concat();
        let args = longboat_sim::Args::simulator(&args).unwrap();
        let end = CancellationToken::new();
        tokio::spawn(longboat_sim::serve(args, listener, end.clone()));
        Self { address, _end: end.drop_guard() }
    }

    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let page = reqwest::get(format!("http://{}/metrics", self.address)).await.unwrap();
        let page = page.text().await.unwrap();
        let line = page.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in\n{page}")).rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// The number of prompts that this engine has computed or received: each has a first token.
    pub(crate) async fn computed(&self) -> f64 {
        self.metric("vllm:time_to_first_token_seconds_count").await
    }
}

pub(crate) struct SidecarFixture {
    pub(crate) prefill: Engine,
    pub(crate) decode: Engine,
    pub(crate) sidecar: u16,
    pub(crate) client: reqwest::Client,
    _end: DropGuard,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) source: Option<String>,
    pub(crate) body: Value,
}

impl SidecarFixture {
    pub(crate) async fn start(way: &Way, sidecar: &[&str], decode: &[&str]) -> Self {
        let prefill = Engine::start(&way.prefill).await;
        let decode = Engine::start(&[&way.decode[..], decode].concat()).await;
        let bootstrap = prefill.address.port().to_string();
        let flags = way.sidecar.iter().chain(sidecar).map(|flag| flag.replace("{prefill}", &bootstrap));
        let (sidecar, end) = start(decode.address.port(), flags).await;
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { prefill, decode, sidecar, client, _end: end }
    }

    pub(crate) fn request(&self, body: &Value) -> reqwest::RequestBuilder {
        let url = format!("http://127.0.0.1:{}{CHAT}", self.sidecar);
        self.client.post(url).header("x-prefiller-host-port", self.prefill.address.to_string()).json(body)
    }

    pub(crate) async fn ask(&self, body: &Value) -> Answer {
        let answer = self.request(body).send().await.unwrap();
        let source = answer.headers().get(SOURCE).map(|source| source.to_str().unwrap().to_owned());
        Answer { status: answer.status().as_u16(), source, body: answer.json().await.unwrap() }
    }
}

/// Starts a sidecar before the engine on this port. Returns the port of the sidecar.
pub(crate) async fn start(engine: u16, more: impl IntoIterator<Item = String>) -> (u16, DropGuard) {
    longboat_tls::install_default_provider();
    let more: Vec<String> = more.into_iter().collect();
    // Another test may take the free port first, or the port after it, which a second rank needs.
    for _ in 0..20 {
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let mut flags = vec![
            format!("--port={port}"),
            format!("--model-server-port={engine}"),
            "--secure-proxy=false".to_owned(),
        ];
        flags.extend_from_slice(&more);
        let command = Args::augment_args(clap::Command::new("sidecar").no_binary_name(true));
        let matches = command.try_get_matches_from(flags).unwrap();
        let mut args = Args::from_arg_matches(&matches).unwrap();
        args.address = Some([127, 0, 0, 1].into());
        let end = CancellationToken::new();
        let running = tokio::spawn(run(args, end.clone()));
        for _ in 0..500 {
            if running.is_finished() {
                break;
            }
            if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                return (port, end.drop_guard());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    panic!("the sidecar does not listen");
}

/// A connector, and the flags for the three processes.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) sidecar: Vec<&'static str>,
    pub(crate) prefill: Vec<&'static str>,
    pub(crate) decode: Vec<&'static str>,
}

pub(crate) fn way(name: &'static str, sidecar: &[&'static str]) -> Way {
    Way { name, sidecar: sidecar.to_vec(), prefill: Vec::new(), decode: Vec::new() }
}

pub(crate) fn chat() -> Value {
    let prompt = "Why is the sea salty, and the rain is not? ".repeat(10);
    json!({"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": 12, "seed": 1})
}
