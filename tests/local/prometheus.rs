//! A real Prometheus, and the queries of the dashboards in `deploy`.

use std::{fs, net::TcpListener, path::Path, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{http, tools, wait::until};

/// A Prometheus that scrapes twice a second. `P` is its process, which ends when this is dropped.
pub(crate) struct Prometheus<P> {
    url: String,
    _process: P,
    _folder: TempDir,
}

// === impl Prometheus ===

impl<P> Prometheus<P> {
    /// Starts a Prometheus with these jobs and the text of these rules.
    pub(crate) fn start(
        program: &Path,
        jobs: &Value,
        rules: &str,
        start: impl FnOnce(&mut Command) -> P,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("rules.yaml"), rules).unwrap();
        let config = json!({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": jobs,
        });
        let file = folder.path().join("prometheus.yaml");
        fs::write(&file, config.to_string()).unwrap();
        let own = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(program);
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        command.arg(format!("--web.listen-address={own}"));
        let process = start(&mut command);
        let url = format!("http://{own}");
        until("Prometheus", || {
            http::try_get(&format!("{url}/-/ready")).filter(|page| page.contains("Ready"))
        });
        Self { url, _process: process, _folder: folder }
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let answer: Value =
            serde_json::from_str(&http::try_get(&format!("{}{path}", self.url)).unwrap()).unwrap();
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].clone()
    }

    /// The series that a query returns, each with its labels and its value.
    pub(crate) fn series(&self, query: &str) -> Vec<Value> {
        // Percent-encodes each byte.
        let query = query.bytes().fold(String::new(), |encoded, byte| encoded + &format!("%{byte:02X}"));
        self.get(&format!("/api/v1/query?query={query}"))["result"].as_array().unwrap().clone()
    }
}

/// Returns the queries of these dashboards, as Grafana sends them if this namespace and service are selected.
pub(crate) fn queries(dashboards: &[&str], namespace: &str, service: &str) -> Vec<String> {
    let mut all = Vec::new();
    for name in dashboards {
        let path = tools::root().join(format!("deploy/dashboards/{name}.json"));
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let query = target["expr"].as_str().unwrap();
                let query = query.replace("$__rate_interval", "1m");
                all.push(query.replace("$namespace", namespace).replace("$service_name", service));
            }
        }
    }
    all
}
