//! The embedded API server with its own controller, for comparisons with the real API server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    api::Api,
    binary::longboat,
    cluster::ExclusiveCluster,
    definitions::{CRDS, definition, install_api},
    server::{Program, free_ports},
    wait::until,
};

/// `longboat apiserver` with the same platform settings and presets, and a controller. It calls no webhooks.
pub(crate) struct Embedded {
    pub(crate) api: Api,
    _server: Program,
    controller: Program,
}

// === impl Embedded ===

impl Embedded {
    pub(crate) fn start(cluster: &ExclusiveCluster) -> Self {
        let folder = tempfile::Builder::new().prefix("longboat-embedded-").tempdir().unwrap().keep();
        let port = folder.join("port");
        let program = &longboat();
        let server = Program::start(program, &folder.join("apiserver.log"), |command| {
            command.args(["apiserver", "--listen=127.0.0.1:0", "--no-auth", "--port-file"]).arg(&port);
        });
        let port = until("the embedded server listens", || {
            server.assert_running();
            std::fs::read_to_string(&port).ok()?.trim().parse::<u16>().ok()
        });
        let url = format!("http://127.0.0.1:{port}");
        let api = Api::plain(&url);
        copy(&cluster.server.api, &api);
        let kubeconfig = folder.join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "embedded",
            "clusters": [{"name": "embedded", "cluster": {"server": url}}],
            "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "anybody"}}],
            "users": [{"name": "anybody", "user": {}}],
        });
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let [webhooks, probes] = free_ports();
        let controller = Program::start(program, &folder.join("controller.log"), |command| {
            command
                .args([
                    "controller",
                    "--system-namespace=kserve",
                    "--webhook-host=127.0.0.1",
                    "--metrics-addr=0",
                ])
                .args(["--webhook-san=127.0.0.1", &format!("--webhook-port={webhooks}")])
                .arg(format!("--health-probe-addr=127.0.0.1:{probes}"))
                .env("KUBECONFIG", &kubeconfig);
        });
        Self { api, _server: server, controller }
    }

    /// The last lines of the controller's log.
    pub(crate) fn controller_log(&self) -> String {
        self.controller.log_tail()
    }
}

/// Copies CRDs, platform settings and presets from one server to another.
fn copy(from: &Api, to: &Api) {
    let definitions = from.get(CRDS).ok();
    for found in definitions["items"].as_array().unwrap() {
        let name = found["metadata"]["name"].as_str().unwrap();
        let mut definition = definition(from, name);
        definition["spec"]["conversion"] = json!({"strategy": "None"});
        install_api(to, &definition);
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kserve"}});
    to.post("/api/v1/namespaces", &namespace);
    for path in [
        "/api/v1/namespaces/kserve/configmaps",
        "/apis/gateway.networking.k8s.io/v1/gatewayclasses",
        "/apis/gateway.networking.k8s.io/v1/namespaces/kserve/gateways",
        "/apis/serving.kserve.io/v1alpha2/namespaces/kserve/llminferenceserviceconfigs",
    ] {
        let list = from.get(path).ok();
        let version = list["apiVersion"].clone();
        let kind = list["kind"].as_str().unwrap().trim_end_matches("List").to_owned();
        for object in list["items"].as_array().unwrap() {
            let mut copied: BTreeMap<&str, Value> = BTreeMap::new();
            copied.insert("apiVersion", version.clone());
            copied.insert("kind", json!(kind));
            let metadata = &object["metadata"];
            copied.insert(
                "metadata",
                json!({"name": metadata["name"], "annotations": metadata["annotations"]}),
            );
            for part in ["spec", "data"].into_iter().filter(|part| !object[part].is_null()) {
                copied.insert(part, object[part].clone());
            }
            to.post(path, &json!(copied)).ok();
        }
    }
}
