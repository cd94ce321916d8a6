//! The cluster that tests share: our CRDs and all optional ones, rights, platform settings, presets and controller.

#[path = "installer.rs"]
pub(crate) mod installer;

use std::{
    ops::Deref,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    thread,
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use self::installer::Ports;
use crate::{
    definitions::install_api,
    program::{Ended, run},
    server::{Program, Server},
    tools,
    wait::{LIMIT, until},
};

/// A cluster with Longboat in it.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) server: Server,
    /// How each of our own CRDs was installed: `kubectl create -f`, and on top of it `apply --server-side`.
    pub(crate) installation: Vec<[Ended; 2]>,
    _controller: Program,
}

/// Exclusive use of the shared cluster for the time of one test.
#[derive(Debug)]
pub(crate) struct ExclusiveCluster {
    cluster: &'static Cluster,
    refused_before: usize,
    _alone: MutexGuard<'static, ()>,
}

// === impl ExclusiveCluster ===

impl ExclusiveCluster {
    /// Waits until no other test uses the cluster. Returns `None`, and reports it, if a program is missing.
    pub(crate) fn take() -> Option<Self> {
        static TURN: Mutex<()> = Mutex::new(());
        static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
        let turn = TURN.lock();
        tools::kubectl()?;
        let cluster = CLUSTER.get_or_init(Cluster::start).as_ref()?;
        Some(Self { cluster, refused_before: cluster.server.refusals().len(), _alone: turn })
    }
}

impl Deref for ExclusiveCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.cluster
    }
}

impl Drop for ExclusiveCluster {
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
    /// Starts a cluster. Returns `None`, and reports it, if a program is missing.
    pub(crate) fn start() -> Option<Self> {
        let server = Server::start()?;
        let deploy = tools::root().join("deploy");
        let kubectl = |arguments: &[&str]| kubectl(&server, arguments);
        let mut installation = Vec::new();
        for path in files(&deploy.join("crds")) {
            if path.contains("serving.kserve.io") {
                // The server limits a write to 34 seconds. On a busy machine, it needs much of that to check a CRD of a
                // megabyte.
                let patiently = |arguments: &[&str]| {
                    until("the API server has checked a CRD in time", || {
                        Some(kubectl(arguments)).filter(|ended| !ended.stderr.contains("(Timeout)"))
                    })
                };
                let created = patiently(&["create", "-f", &path]);
                installation.push([created, patiently(&["apply", "--server-side", "-f", &path])]);
            } else {
                kubectl(&["apply", "--server-side", "-f", &path]).ok();
            }
        }
        for definition in longboat_api::crd::optional() {
            install_api(&server.api, &definition);
        }
        kubectl(&["wait", "crd", "--all", "--for=condition=Established"]).ok();
        let platform = tools::root().join("crates/compose/src/platform/objects.yaml");
        kubectl(&["apply", "--server-side", "-f", platform.to_str().unwrap()]).ok();
        // kubectl has applied the CRDs and the platform settings, so the installer must take over their fields.
        let (installed, controller) = installer::install(&server, Ports::free(), &["--force-conflicts"]);
        installed.ok();
        Some(Self { server, installation, _controller: controller })
    }

    /// Runs kubectl as the administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Ended {
        kubectl(&self.server, arguments)
    }

    /// Creates a namespace for one test.
    pub(crate) fn namespace(&self, name: &str) {
        self.server.api.make_namespace(name);
    }

    /// Writes a manifest into the cluster's folder. Returns its path.
    pub(crate) fn file(&self, name: &str, content: &Value) -> String {
        let path = self.server.folder.join(name);
        std::fs::write(&path, content.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The controller's log so far.
    pub(crate) fn controller_log(&self) -> String {
        std::fs::read_to_string(self.server.folder.join("controller.log")).unwrap_or_default()
    }
}

pub(crate) fn kubectl(server: &Server, arguments: &[&str]) -> Ended {
    let mut command = Command::new(tools::root().join(".cache/bin/kubectl"));
    let limit = format!("--request-timeout={}s", LIMIT.as_secs());
    command.env("KUBECONFIG", &server.kubeconfig).env("HOME", &server.folder);
    run(command.arg(limit).args(arguments))
}

/// Returns the files of a folder, sorted by name, without its `kustomization.yaml`.
pub(crate) fn files(folder: &Path) -> Vec<String> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| !path.ends_with("kustomization.yaml"));
    all.sort();
    all.into_iter().map(|path| path.to_str().unwrap().to_owned()).collect()
}

/// Returns the collection path of one of Longboat's objects, by its kind, version and namespace.
pub(crate) fn collection(object: &Value) -> String {
    let resource = match object["kind"].as_str() {
        Some("LLMInferenceService") => "llminferenceservices",
        Some("LLMInferenceServiceConfig") => "llminferenceserviceconfigs",
        other => panic!("no kind of ours: {other:?}"),
    };
    let (version, namespace) = (object["apiVersion"].as_str(), object["metadata"]["namespace"].as_str());
    format!("/apis/{}/namespaces/{}/{resource}", version.unwrap(), namespace.unwrap())
}
