//! A manual installation on a separate server. The tests start the controllers, and the server calls no webhooks.

use std::path::PathBuf;

use serde_json::json;

use crate::{
    cluster::{files, kubectl},
    definitions::install_api,
    server::{Server, User},
    tools,
    wait::until,
};

/// Starts a server that has only the controller's account and rights. Returns `None`, and reports it, if a program is missing.
pub(crate) fn prepared() -> Option<Server> {
    tools::kubectl()?;
    let server = Server::start()?;
    grant(&server);
    Some(server)
}

/// Creates the platform's namespace with the controller's service account and rights.
pub(crate) fn grant(server: &Server) {
    server.api.make_namespace("kserve");
    let rights = tools::root().join("deploy/rbac");
    kubectl(server, &["apply", "--server-side", "-k", rights.to_str().unwrap()]).ok();
}

/// Writes a kubeconfig named `name` for the controller's service account, with a new token. Returns its path.
pub(crate) fn credentials(server: &Server, name: &str) -> PathBuf {
    let path = server.folder.join(format!("{name}.kubeconfig"));
    server.write_kubeconfig(&path, &User::Token(&server.token("llmisvc-controller-manager")));
    path
}

/// Installs the third-party CRDs that services may use.
pub(crate) fn install_others(server: &Server) {
    for definition in longboat_api::crd::optional() {
        install_api(&server.api, &definition);
    }
    let folder = tools::root().join("deploy/crds");
    for path in files(&folder).iter().filter(|path| !path.contains("serving.kserve.io")) {
        kubectl(server, &["apply", "--server-side", "-f", path]).ok();
    }
}

/// Installs CRDs, platform settings and presets, but no webhooks.
pub(crate) fn install(server: &Server) {
    for definition in longboat_api::crd::own() {
        install_api(&server.api, &definition);
    }
    install_others(server);
    let platform = tools::root().join("crates/compose/src/platform/objects.yaml");
    let applied = || kubectl(server, &["apply", "--server-side", "-f", platform.to_str().unwrap()]);
    until("the platform's settings are there", || applied().status.success());
    kubectl(
        server,
        &["apply", "--server-side", "-k", tools::root().join("deploy/presets").to_str().unwrap()],
    )
    .ok();
}

pub(crate) fn make_service(server: &Server, namespace: &str, name: &str) {
    let spec = json!({
        "model": {"uri": "hf://org/model"}, "router": {"route": {}, "gateway": {}, "scheduler": {}},
    });
    let object = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    });
    let path = format!("/apis/serving.kserve.io/v1alpha2/namespaces/{namespace}/llminferenceservices");
    server.api.post(&path, &object).ok();
}

/// Waits until a service has its workload, its picker and its route, and a status.
pub(crate) fn served(server: &Server, namespace: &str, name: &str) {
    let found = |path: &str| server.api.get(path).status == 200;
    let deployment = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}-kserve");
    let route =
        format!("/apis/gateway.networking.k8s.io/v1/namespaces/{namespace}/httproutes/{name}-kserve-route");
    let service =
        format!("/apis/serving.kserve.io/v1alpha2/namespaces/{namespace}/llminferenceservices/{name}");
    until(&format!("{name} has its children and a status"), || {
        let status = &server.api.get(&service).ok()["status"]["observedGeneration"];
        found(&deployment)
            && found(&format!("{deployment}-router-scheduler"))
            && found(&route)
            && *status == 1
    });
}
