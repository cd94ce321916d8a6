//! A running vLLM.

use std::{fs, net::TcpListener, os::unix::process::CommandExt, process::Child, time::Duration};

use reqwest::{Client, redirect::Policy};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::install::Install;

/// A start takes a minute on an idle machine.
const START_LIMIT: Duration = Duration::from_mins(10);

/// A server, which ends with this value.
pub(crate) struct Server {
    child: Child,
    url: String,
    pub(crate) client: Client,
}

// === impl Server ===

impl Server {
    /// Starts vLLM with a model and flags, and waits until it answers.
    pub(crate) async fn start(install: &Install, model: &str, flags: &[&str]) -> Self {
        longboat_tls::install_default_provider();
        // Another program may take the port before vLLM does: then the start fails, and says so.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let log = install.model("log");
        let mut command = install.command();
        command.arg("serve").arg(install.model(model));
        command
            .args(["--host", "127.0.0.1", "--port", &port, "--dtype", "float32", "--enforce-eager"])
            .args(flags);
        // Its helpers are in its group, and end with it.
        command.process_group(0).stdout(fs::File::create(&log).unwrap());
        command.stderr(fs::File::options().append(true).open(&log).unwrap());
        // vLLM closes the connection after an error of its own, so every request has its own.
        let client = Client::builder().no_proxy().redirect(Policy::none()).pool_max_idle_per_host(0);
        let client = client.build().unwrap();
        let mut server =
            Self { child: command.spawn().unwrap(), url: format!("http://127.0.0.1:{port}"), client };
        let ready = async {
            loop {
                let health = server.client.get(server.url("/health")).send().await;
                if health.is_ok_and(|health| health.status().is_success()) {
                    return;
                }
                if let Some(status) = server.child.try_wait().unwrap() {
                    panic!("vLLM ended with {status}: see {}", log.display());
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let is_ready = tokio::time::timeout(START_LIMIT, ready).await.is_ok();
        assert!(is_ready, "vLLM does not answer: see {}", log.display());
        server
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
