//! The cluster that tests share: our CRDs, rights, platform settings, presets and controller.

use std::{
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    thread,
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::json;

use crate::{
    program::{Ended, run},
    server::{Guarded, Server, User},
    tools,
    wait::{LIMIT, until},
};

/// A cluster with Longboat in it.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) server: Server,
    /// How each of our own CRDs was installed: `kubectl create -f`, and on top of it `apply --server-side`.
    pub(crate) installation: Vec<[Ended; 2]>,
    _controller: Guarded,
}

/// The cluster for the time of one test.
#[derive(Debug)]
pub(crate) struct Turn {
    cluster: &'static Cluster,
    refused_before: usize,
    _alone: MutexGuard<'static, ()>,
}

// === impl Turn ===

impl Turn {
    /// Waits until no other test uses the cluster. `None`, said loudly, where something is missing.
    pub(crate) fn take() -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
        let turn = TURN.lock();
        tools::kubectl()?;
        let cluster = CLUSTER.get_or_init(Cluster::start).as_ref()?;
        Some(Self { cluster, refused_before: cluster.server.refusals().len(), _alone: turn })
    }
}

impl Deref for Turn {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.cluster
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !thread::panicking() {
            let refusals = self.server.refusals();
            let refusals = &refusals[self.refused_before..];
            assert!(refusals.is_empty(), "the controller was refused: {refusals:#?}");
        }
    }
}

// === impl Cluster ===

impl Cluster {
    fn start() -> Option<Self> {
        let server = Server::start()?;
        let deploy = tools::root().join("deploy");
        let kubectl = |arguments: &[&str]| kubectl(&server, arguments);
        let mut installation = Vec::new();
        for path in files(&deploy.join("crds")) {
            if path.contains("serving.kserve.io") {
                let created = kubectl(&["create", "-f", &path]);
                installation.push([created, kubectl(&["apply", "--server-side", "-f", &path])]);
            } else {
                kubectl(&["apply", "--server-side", "-f", &path]).ok();
            }
        }
        kubectl(&["wait", "crd", "--all", "--for=condition=Established"]).ok();
        let platform = tools::root().join("crates/local/src/objects/platform.yaml");
        kubectl(&["apply", "--server-side", "-f", platform.to_str().unwrap()]).ok();
        kubectl(&["apply", "--server-side", "-f", deploy.join("rbac").to_str().unwrap()]).ok();
        let controller = start_controller(&server);
        let presets = tools::root().join("presets");
        kubectl(&["apply", "--server-side", "-n", "kserve", "-f", presets.to_str().unwrap()]).ok();
        Some(Self { server, installation, _controller: controller })
    }

    /// Runs kubectl as the administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Ended {
        kubectl(&self.server, arguments)
    }

    /// Makes a namespace for one test.
    pub(crate) fn namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.server.api.post("/api/v1/namespaces", &object).ok();
    }

    /// What the controller has said so far.
    pub(crate) fn controller_log(&self) -> String {
        std::fs::read_to_string(self.server.folder.join("controller.log")).unwrap_or_default()
    }
}

/// The controller as a service account with the rights of `deploy/rbac`.
fn start_controller(server: &Server) -> Guarded {
    let token = "/api/v1/namespaces/kserve/serviceaccounts/llmisvc-controller-manager/token";
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 36_000},
    });
    let token = server.api.post(token, &request).ok();
    let kubeconfig = server.folder.join("controller.kubeconfig");
    server.write_kubeconfig(&kubeconfig, &User::Token(token["status"]["token"].as_str().unwrap()));
    let longboat = Path::new(env!("CARGO_BIN_EXE_longboat"));
    let controller = Guarded::start(longboat, &server.folder.join("controller.log"), |command| {
        command.args(["controller", "--system-namespace", "kserve"]).env("KUBECONFIG", &kubeconfig);
    });
    until("the controller reconciles", || {
        controller.assert_running();
        let said = std::fs::read_to_string(server.folder.join("controller.log")).unwrap_or_default();
        said.contains("reconciling starts").then_some(())
    });
    controller
}

fn kubectl(server: &Server, arguments: &[&str]) -> Ended {
    let mut command = Command::new(tools::root().join(".cache/bin/kubectl"));
    let limit = format!("--request-timeout={}s", LIMIT.as_secs());
    command.env("KUBECONFIG", &server.kubeconfig).env("HOME", &server.folder);
    run(command.arg(limit).args(arguments))
}

/// Files of a folder, in the order of their names.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all.into_iter().map(|path| path.to_str().unwrap().to_owned()).collect()
}
