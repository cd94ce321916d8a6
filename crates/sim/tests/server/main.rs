//! The simulator over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod answers;
mod engines;
mod images;
mod refusals;
mod responses;
mod tools;
mod transfer;
mod vllm;

use std::net::SocketAddr;

use longboat_sim::{Args, serve};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
    client: reqwest::Client,
}

impl Server {
    async fn start(arguments: &[&str]) -> Self {
        longboat_tls::install_default_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut all = vec!["/mnt/models", "--served-model-name", "m", "alias"];
        all.extend(arguments);
        let args = Args::simulator(&all).unwrap();
        let shutdown = CancellationToken::new();
        let token = shutdown.clone();
        let task = tokio::spawn(async move { serve(args, listener, token).await.unwrap() });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { address, shutdown, task, client }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let response = self.client.post(self.url(path)).json(body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn events(&self, path: &str, body: &Value) -> Vec<Value> {
        let text = self.client.post(self.url(path)).json(body).send().await.unwrap().text().await.unwrap();
        let mut lines: Vec<_> = text.split("\n\n").filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.pop(), Some("data: [DONE]"));
        lines.iter().map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap()).collect()
    }

    /// The sum of all series of this name.
    async fn metric(&self, name: &str) -> f64 {
        let page = self.client.get(self.url("/metrics")).send().await.unwrap().text().await.unwrap();
        let lines: Vec<_> = page.lines().filter(|line| line.starts_with(name)).collect();
        assert!(!lines.is_empty(), "no {name} in\n{page}");
        lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    }
}

fn chat(content: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": content}], "seed": 1})
}

/// A chat request with additional fields.
fn with(fields: &Value) -> Value {
    let mut request = chat("What is the weather in Oslo?");
    for (key, value) in fields.as_object().unwrap() {
        request[key] = value.clone();
    }
    request
}

fn weather() -> Value {
    json!({"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "required": ["city", "unit"], "additionalProperties": false, "properties": {
            "city": {"type": "string"}, "unit": {"enum": ["c", "f"]}, "days": {"type": "integer", "minimum": 1}}}}})
}

fn is_weather(arguments: &str) -> bool {
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    arguments["city"].is_string() && ["c", "f"].iter().any(|unit| arguments["unit"] == *unit)
}
