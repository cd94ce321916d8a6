//! An installation by hand, on a server of its own: whoever runs the controller there is up to the test, and nobody calls webhooks.

use std::path::PathBuf;

use serde_json::json;

use crate::{
    cluster::{files, kubectl},
    definitions::install_api,
    server::{Server, User},
    tools,
    wait::until,
};

/// A server with the controller's rights and nothing else of ours; `None`, said loudly, where something is missing.
pub(crate) fn prepared() -> Option<Server> {
    tools::kubectl()?;
    let server = Server::start()?;
    grant(&server);
    Some(server)
}

/// Makes the platform's namespace, and in it the account of the controller with its rights.
pub(crate) fn grant(server: &Server) {
    server.api.make_namespace("kserve");
    let rights = tools::root().join("deploy/rbac");
    kubectl(server, &["apply", "--server-side", "-k", rights.to_str().unwrap()]).ok();
}

/// A kubeconfig for the controller's account under a name, with a token that nobody else has.
pub(crate) fn credentials(server: &Server, name: &str) -> PathBuf {
    let path = server.folder.join(format!("{name}.kubeconfig"));
    server.write_kubeconfig(&path, &User::Token(&server.token("llmisvc-controller-manager")));
    path
}

/// Installs the APIs of others that services may use.
pub(crate) fn install_others(server: &Server) {
    for definition in longboat_api::crd::optional() {
        install_api(&server.api, &definition);
    }
    let folder = tools::root().join("deploy/crds");
    for path in files(&folder).iter().filter(|path| !path.contains("serving.kserve.io")) {
        kubectl(server, &["apply", "--server-side", "-f", path]).ok();
    }
}

/// Installs what services need: CRDs, the platform's settings and presets. Nothing calls webhooks.
pub(crate) fn install(server: &Server) {
    for definition in longboat_api::crd::own() {
        install_api(&server.api, &definition);
    }
    install_others(server);
    let platform = tools::root().join("crates/local/src/objects/platform.yaml");
    let applied = || kubectl(server, &["apply", "--server-side", "-f", platform.to_str().unwrap()]);
    until("the platform's settings are there", || applied().status.success().then_some(()));
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
        (found(&deployment)
            && found(&format!("{deployment}-router-scheduler"))
            && found(&route)
            && *status == 1)
            .then_some(())
    });
}
