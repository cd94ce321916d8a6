//! `longboat up` whose pods are real engines, and these engines without gateway, picker and sidecar.

use std::time::Duration;

use reqwest::{Client, header::CONTENT_TYPE, tls::TlsInfo};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    http::{self, Answer},
    install::Install,
    local_cluster::{LocalCluster, longboat, up},
    program::run,
    wait::{until, within},
};

/// How long a service, whose engines start at the same time, may take on a busy machine.
pub(crate) const START_LIMIT: Duration = Duration::from_mins(20);

/// The only name of the model.
pub(crate) const MODEL: &str = "m";

/// A running service.
pub(crate) struct World {
    pub(crate) cluster: LocalCluster,
    pub(crate) service: &'static str,
}

/// An engine in a pod.
pub(crate) struct Engine {
    url: String,
    client: Client,
}

/// A service with a picker and a proof of serving, and with these further fields.
pub(crate) fn service(name: &str, model: &str, more: &[(&str, Value)]) -> Value {
    let mut service = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {
            "name": name, "namespace": "default",
            "annotations": {"longboat.dev/serving-proof": "report"}},
        "spec": {
            "model": {"uri": format!("file://{model}"), "name": MODEL}, "replicas": 1,
            "router": {"gateway": {}, "route": {}, "scheduler": {}}},
    });
    for (field, value) in more {
        service["spec"][*field] = value.clone();
    }
    service
}

/// Returns a client for engines, which have certificates that nobody has signed.
fn client() -> Client {
    longboat_tls::install_default_provider();
    // vLLM closes the connection after an error of its own, so every request has its own.
    let client = Client::builder().no_proxy().danger_accept_invalid_certs(true).tls_info(true);
    client.pool_max_idle_per_host(0).build().unwrap()
}

/// The template of a pod with a vLLM that gets these arguments.
pub(crate) fn template(install: &Install, arguments: &str) -> Value {
    let variables = install.variables().into_iter().filter(|(name, _)| *name != "HOME");
    let mut variables: Vec<Value> =
        variables.map(|(name, value)| json!({"name": name, "value": value})).collect();
    let arguments = format!("--dtype float32 --enforce-eager --enable-prompt-tokens-details {arguments}");
    variables.push(json!({"name": "VLLM_ADDITIONAL_ARGS", "value": arguments}));
    variables.push(json!({"name": "VLLM_NIXL_SIDE_CHANNEL_HOST",
        "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}));
    // A busy machine starts an engine in more than the ten minutes of the preset.
    let probe = json!({"failureThreshold": START_LIMIT.as_secs() / 10});
    json!({"containers": [{"name": "main", "env": variables, "startupProbe": probe}]})
}

// === impl World ===

impl World {
    /// Runs a service with the program of an engine. `prepare` gets the folder of the state first.
    pub(crate) fn start(
        service: &'static str,
        engine: &str,
        manifest: &Value,
        prepare: impl FnOnce(&std::path::Path),
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let state = folder.path().join("s");
        prepare(&state);
        let file = folder.path().join("service.json");
        std::fs::write(&file, manifest.to_string()).unwrap();
        let limit = START_LIMIT.as_secs().to_string();
        let mut command = up(folder.path());
        command.args(["--engine", engine, "--timeout", &limit, "--state"]).args([state, file]);
        // `up` gives up, and says why, before this test does.
        let limit = START_LIMIT + Duration::from_mins(1);
        Self { cluster: LocalCluster::launch(&mut command, folder, limit), service }
    }

    /// Waits until the engine in the pod of a role answers.
    pub(crate) fn engine(&self, role: &str) -> Engine {
        let url = until("a pod with an address", || {
            let pod =
                self.pods(role).into_iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_null())?;
            let containers = pod["spec"]["containers"].as_array()?;
            let engine = containers.iter().find(|container| container["name"] == "main")?;
            let probe = &engine["startupProbe"]["httpGet"];
            let scheme = probe["scheme"].as_str()?.to_lowercase();
            Some(format!("{scheme}://{}:{}", pod["status"]["podIP"].as_str()?, probe["port"]))
        });
        let client = client();
        within(START_LIMIT, "the engine answers", || {
            let models = http::block(client.get(format!("{url}/v1/models")).send());
            models.is_ok_and(|models| models.status().is_success()).then_some(())
        });
        Engine { url, client }
    }

    /// The pods of a role.
    pub(crate) fn pods(&self, role: &str) -> Vec<Value> {
        let pods = self.cluster.object(&["pods", "-l", &format!("llm-d.ai/role={role}")]);
        pods["items"].as_array().unwrap().clone()
    }

    /// Sends a request through the gateway.
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        http::post(&format!("{}{path}", self.cluster.url), body)
    }

    /// Waits until a condition says this, and returns its message.
    pub(crate) fn says(&self, condition: &str, status: &str, reason: &str) -> String {
        until(&format!("{condition}={status} {reason}"), || {
            let live = self.cluster.object(&["llmisvc", self.service]);
            let found =
                live["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == condition)?;
            let is_it = found["status"] == status && found["reason"] == reason;
            is_it.then(|| found["message"].as_str().unwrap_or_default().to_owned())
        })
    }

    /// Returns what a verb prints as JSON.
    pub(crate) fn verb(&self, verb: &str, arguments: &[&str]) -> Value {
        let mut command = longboat(verb, self.cluster.folder.path());
        command.env("KUBECONFIG", &self.cluster.kubeconfig).args(arguments).args(["-o", "json"]);
        let ended = run(&mut command);
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{verb}: {error}: {ended:#?}"))
    }
}

// === impl Engine ===

impl Engine {
    pub(crate) fn get(&self, path: &str) -> Answer {
        Self::send(&self.client.get(format!("{}{path}", self.url)))
    }

    /// The certificate that a new client gets. A known one resumes its session, for which it needs none.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        let health = http::block(client().get(format!("{}/health", self.url)).send()).unwrap();
        let connection = health.extensions().get::<TlsInfo>().unwrap();
        connection.peer_certificate().unwrap().to_vec()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        let request =
            self.client.post(format!("{}{path}", self.url)).header(CONTENT_TYPE, "application/json");
        Self::send(&request.body(body.to_string()))
    }

    /// The sum of the series of a metric whose labels contain this text.
    pub(crate) fn metric(&self, name: &str, label: &str) -> f64 {
        let page = self.get("/metrics").body;
        let series = page.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        series
            .filter(|line| line.contains(label))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// Waits until the engine computes and keeps nothing for anybody.
    pub(crate) fn rests(&self) {
        until("no request in the engine", || {
            let busy = ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"];
            busy.iter().all(|name| self.metric(name, "") <= 0.0).then_some(())
        });
    }

    fn send(request: &reqwest::RequestBuilder) -> Answer {
        let request = request.try_clone().unwrap();
        http::block(async { http::read(request.send().await.unwrap()).await })
    }
}
