//! The engine on its own port, in the test's process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use longboat_engine::{Args, EngineError, serve};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Returns the file of the model. Returns `None` with a visible message if the model was not fetched.
pub(crate) fn model() -> Option<PathBuf> {
    let model =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !model.is_file() {
        longboat_golden::skipped("the model is missing; scripts/tools.sh fetches it");
        return None;
    }
    Some(model)
}

/// What a script of this folder prints. Nothing where Python or numpy is missing, which is said.
pub(crate) fn script(name: &str, arguments: &[&Path]) -> Option<Vec<u8>> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = manifest.join("../../.cache/python/bin/python3");
    let numpy = Command::new(&python).args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|output| output.status.success()) {
        longboat_golden::skipped("numpy is missing; scripts/tools.sh fetches it");
        return None;
    }
    let output =
        Command::new(python).arg(manifest.join("tests").join(name)).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

pub(crate) struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), EngineError>>,
    pub(crate) client: reqwest::Client,
}

impl Server {
    /// Starts the server with these arguments. Requests wait until the model is loaded.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        Self::start_in(arguments, |_| None).await
    }

    /// Like [`Self::start`], with environment variables.
    pub(crate) async fn start_in(arguments: &[&str], variable: impl Fn(&str) -> Option<String>) -> Self {
        longboat_tls::install_default_provider();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let args = Args::parse_with(arguments, &variable).unwrap();
        let shutdown = CancellationToken::new();
        let token = shutdown.clone();
        let task = tokio::spawn(async move { serve(args, listener, token).await });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { address, shutdown, task, client }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn send(&self, path: &str, body: &Value) -> reqwest::Response {
        let url = self.url() + path;
        self.client.post(url).json(body).send().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let response = self.send(path, body).await;
        let status = response.status();
        let answer: Value = response.json().await.unwrap();
        assert!(status.is_success(), "{answer}");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> String {
        let url = self.url() + path;
        self.client.get(url).send().await.unwrap().text().await.unwrap()
    }

    pub(crate) async fn end(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}
