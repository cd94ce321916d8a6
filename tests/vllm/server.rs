//! A running vLLM.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use reqwest::{Client, redirect::Policy};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::install::Install;

/// A start takes a minute on an idle machine.
const START_LIMIT: Duration = Duration::from_mins(10);

/// A process with its children, which end with this value.
pub(crate) struct Process(Child);

/// A server, which ends with this value.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
}

/// Returns an address of this machine with a port that is free now. Another program may take the port before vLLM does: then the
/// start fails, and says so.
pub(crate) fn free_address(host: &str) -> SocketAddr {
    TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
}

// === impl Process ===

impl Process {
    /// Starts a command in a group of its own.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.process_group(0).stdin(Stdio::null()).spawn().unwrap())
    }

    /// Returns how the process ended, if it has.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self.group() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

// === impl Server ===

impl Server {
    /// Starts vLLM with a model and flags, and waits until it answers.
    pub(crate) async fn start(install: &Install, model: &str, flags: &[&str]) -> Self {
        let flags = [&["--dtype", "float32", "--enforce-eager"], flags].concat();
        let mut server = Self::launch(install, &["serve"], free_address("127.0.0.1"), model, &flags);
        server.ready().await;
        server
    }

    /// Starts a command of vLLM on an address of this machine. It does not answer yet.
    pub(crate) fn launch(
        install: &Install,
        command: &[&str],
        address: SocketAddr,
        model: &str,
        flags: &[&str],
    ) -> Self {
        longboat_tls::install_default_provider();
        let host = address.ip().to_string();
        let log = fs::File::create(install.folder(&format!("log-{host}"))).unwrap();
        let mut process = install.command();
        process.args(command).arg(install.folder(model));
        process.args(["--host", &host, "--port", &address.port().to_string()]).args(flags);
        process.stdout(log.try_clone().unwrap()).stderr(log);
        // vLLM closes the connection after an error of its own, so every request has its own.
        let client = Client::builder().no_proxy().redirect(Policy::none()).pool_max_idle_per_host(0);
        Self { process: Process::start(&mut process), address, client: client.build().unwrap() }
    }

    /// Waits until it answers.
    pub(crate) async fn ready(&mut self) {
        let log = format!("log-{} in the folder of the installation", self.address.ip());
        let ready = async {
            loop {
                let health = self.client.get(self.url("/health")).send().await;
                if health.is_ok_and(|health| health.status().is_success()) {
                    return;
                }
                if let Some(status) = self.process.status() {
                    panic!("vLLM ended with {status}: see {log}");
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let is_ready = tokio::time::timeout(START_LIMIT, ready).await.is_ok();
        assert!(is_ready, "vLLM does not answer: see {log}");
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the answer to a request that must succeed.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.client.post(self.url(path)).json(body).send().await.unwrap();
        let status = answer.status();
        let answer: Value = answer.json().await.unwrap();
        assert!(status.is_success(), "{path} {body}: {status} {answer}");
        answer
    }
}
