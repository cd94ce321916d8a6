//! Start and shutdown of the node.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use longboat_api::node::{ENGINE_SEES_OTHER_PATHS, PATHS_REWRITTEN};
use longboat_apiserver::pod_access::PodAccess;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::address::AddressPool;
use crate::bin_dir;
use crate::container::host::Host;
use crate::controllers::{self, Caches};
use crate::error::NodeError;
use crate::events::Recorder;
use crate::hosts::HostsFiles;
use crate::mounts::Mounts;
use crate::options::{Engine, Options};
use crate::pod::kubelet;
use crate::pod::shared::{Shared, Shutdown};
use crate::pod_access::Registry;
use crate::private;
use crate::reaper::Reaper;
use crate::registration::Registration;

/// How long the reaper may take to kill the remaining processes and to remove the state directory.
const REAPER_TIMEOUT: Duration = Duration::from_secs(5);

/// The name of the link to a state folder whose path would need quoting.
const ALIAS: &str = "state";

/// Why paths are rewritten if the options ask for it.
const ASKED_TO_REWRITE: &str = "the options of this node ask for it";

/// How long the node waits for its tasks after it has killed their processes.
const TASK_EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The entry point of the crate: [`Node::start`].
#[derive(Debug, Clone, Copy)]
pub struct Node;

/// A running node. Dropping it kills its processes; [`shutdown`](Self::shutdown) lets them end by themselves.
#[derive(Debug)]
pub struct NodeHandle {
    registry: Registry,
    stood_in_for: watch::Receiver<BTreeSet<String>>,
    rewritten: Option<String>,
    shutdown: watch::Sender<Shutdown>,
    cancel: CancellationToken,
    kubelet: JoinHandle<()>,
    tasks: JoinSet<()>,
    reaper: Reaper,
}

impl Node {
    /// Registers the node, and starts running the pods that are bound to it, the workload controllers, and the service
    /// proxy.
    pub async fn start(client: Client, options: Options) -> Result<NodeHandle, NodeError> {
        let client = longboat_watch::named(client, "longboat-node");
        let Options {
            name,
            executable,
            state_dir,
            remove_state_dir,
            engine,
            engine_reason,
            offline,
            api,
            address_range,
            labels,
            strict_scheduling,
            rewrite_paths,
            gateway_picks,
            traces,
            images,
            queue,
            timing,
        } = options;
        let (api_host, api_port) = host_and_port(&api.url)?;
        let node_id = format!("{:016x}", rand::random::<u64>());
        let alias = alias(&state_dir, &node_id)?;
        let plain = alias.as_ref().map_or_else(|| state_dir.clone(), |alias| alias.join(ALIAS));
        let engine_note = if engine_reason.is_empty() {
            engine.kind().to_owned()
        } else {
            format!("{}: {engine_reason}", engine.kind())
        };

        let removed = remove_state_dir.then_some(&state_dir).into_iter().chain(&alias);
        // Before anything else that may fail: the reaper also removes the folders of a node that does not start.
        let reaper = Reaper::start(&executable, &node_id, removed).map_err(|source| {
            if let Some(alias) = &alias
                && let Err(error) = std::fs::remove_dir_all(alias)
            {
                tracing::warn!(%error, path = %alias.display(), "Cannot remove a temporary folder.");
            }
            NodeError::Reaper { command: format!("{} reaper", executable.display()), source }
        })?;
        let dirs = StateDirs::create(&plain, &executable, &engine)?;
        let variables = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
        let mut host = Host {
            gateway_picks,
            traces,
            images,
            ..Host::new(dirs.bin, engine, offline, node_id, variables)
        };
        let kept = host.needed_paths().into_iter().chain([state_dir, plain]);
        let mounts = Mounts::new(executable, dirs.root, kept);
        let rewritten =
            if rewrite_paths { Some(ASKED_TO_REWRITE.to_owned()) } else { mounts.attempt().await.err() };
        host.mounts = rewritten.is_none().then(|| Arc::new(mounts));
        let reason = match host.engine {
            Engine::Command(_) => ENGINE_SEES_OTHER_PATHS,
            Engine::Simulator | Engine::Cpu(_) => PATHS_REWRITTEN,
        };
        let condition = rewritten.clone().map(|message| (reason, message));
        let registration = Registration { name: name.clone(), labels, rewritten: condition };
        registration.write(&client).await?;

        let cancel = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let caches = Caches::watch(&client, &cancel, &mut tasks);
        tasks.spawn(registration.keep(client.clone(), caches.nodes.clone()));
        let (recorder, record) = Recorder::new(client.clone(), name.clone());
        tasks.spawn(record);
        let stand_ins = watch::Sender::new(BTreeSet::new());
        let stood_in_for = stand_ins.subscribe();
        let machine = controllers::Machine {
            node: &name,
            ca_pem: api.ca_pem.clone(),
            claims_dir: &dirs.claims,
            stand_ins: (!strict_scheduling).then_some(stand_ins),
            queue,
        };
        controllers::spawn(&mut tasks, &client, &caches, &recorder, machine, &cancel);

        let (shutdown, shutdown_asked) = watch::channel(None);
        let registry = Registry::default();
        let hosts =
            host.mounts.as_ref().map(|_| Arc::new(HostsFiles::new(dirs.hosts, caches.services.clone())));
        if let Some(hosts) = hosts.clone() {
            tasks.spawn(async move { hosts.run().await });
        }
        let shared = Arc::new(Shared {
            client,
            node_name: name,
            engine_note,
            host: Arc::new(host),
            api,
            api_host,
            api_port,
            pods_dir: dirs.pods,
            claims_dir: dirs.claims,
            timing,
            addresses: AddressPool::new(&address_range),
            reaper: reaper.clone(),
            recorder,
            registry: registry.clone(),
            services: caches.services.clone(),
            hosts,
            shutdown: shutdown_asked,
        });
        let kubelet = tokio::spawn(kubelet::run(shared, caches.pods));
        Ok(NodeHandle { registry, stood_in_for, rewritten, shutdown, cancel, kubelet, tasks, reaper })
    }
}

impl NodeHandle {
    /// Returns the access to the node's pods for [`ApiServer::set_pod_access`](longboat_apiserver::ApiServer).
    pub fn pod_access(&self) -> Arc<dyn PodAccess> {
        Arc::new(self.registry.clone())
    }

    /// Returns what the node pretends to have because pods ask for it: labels as `key=value`, and `taint key=value:effect`.
    /// There are more whenever a pod asks for more.
    pub fn stood_in_for(&self) -> watch::Receiver<BTreeSet<String>> {
        self.stood_in_for.clone()
    }

    /// Returns why the paths of volumes are rewritten in all pods, or `None` if pods have mount namespaces.
    pub fn rewritten(&self) -> Option<&str> {
        self.rewritten.as_deref()
    }

    /// Shuts the node down: sends SIGTERM to all processes at once, without their preStop hooks, and SIGKILL after
    /// `deadline`. API objects stay as they are.
    pub async fn shutdown(mut self, deadline: Duration) {
        // The controllers first: they would replace the pods that end.
        self.cancel.cancel();
        let at = Instant::now() + deadline;
        self.shutdown.send_replace(Some(at));
        if tokio::time::timeout_at(at + TASK_EXIT_TIMEOUT, &mut self.kubelet).await.is_err() {
            tracing::warn!("Killing pods that did not end in time.");
            self.kubelet.abort();
        }
        // After the pods: one of these tasks writes their events.
        self.tasks.shutdown().await;
        // At the end, because the reaper removes the folder in which pods run.
        if !self.reaper.finish(REAPER_TIMEOUT).await {
            tracing::warn!("The reaper still cleans up processes.");
        }
    }
}

impl Drop for NodeHandle {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.kubelet.abort();
    }
}

/// The folders in the state directory.
struct StateDirs {
    pods: PathBuf,
    claims: PathBuf,
    bin: PathBuf,
    hosts: PathBuf,
    /// An empty folder, from which mount namespaces put together a root folder.
    root: PathBuf,
}

impl StateDirs {
    /// Creates the folders. Those of pods are empty.
    fn create(state_dir: &Path, executable: &Path, engine: &Engine) -> Result<Self, NodeError> {
        let [pods, claims, bin, hosts, root] =
            ["pods", "claims", "bin", "hosts", "root"].map(|name| state_dir.join(name));
        let unwritable = |path: &Path| {
            let path = path.to_owned();
            move |source| NodeError::StateDir { path, source }
        };
        // The pods of an earlier node no longer run, and their folders would conflict with those of this node.
        private::if_found(std::fs::remove_dir_all(&pods)).map_err(unwritable(&pods))?;
        for dir in [&pods, &claims, &hosts, &root] {
            private::create_dir(dir).map_err(unwritable(dir))?;
        }
        bin_dir::create(&bin, executable, engine).map_err(unwritable(&bin))?;
        Ok(Self { pods, claims, bin, hosts, root })
    }
}

/// Creates a temporary folder with a link to a state folder whose path would need quoting, and returns the temporary folder. The
/// reaper removes it.
fn alias(state_dir: &Path, node_id: &str) -> Result<Option<PathBuf>, NodeError> {
    if needs_no_quoting(state_dir) {
        return Ok(None);
    }
    // The reaper reads lines, and would remove the folder that the first line of such a path names.
    if state_dir.to_str().is_none_or(|path| path.contains([':', '\n'])) {
        return Err(NodeError::Options(format!(
            "state folder `{}`: expected a path without line breaks, and without a colon, at which the variable KUBECONFIG is split",
            state_dir.display()
        )));
    }
    let folder = std::env::temp_dir().join(format!("longboat-{node_id}"));
    if !state_dir.is_absolute() || !needs_no_quoting(&folder) {
        return Err(NodeError::Options(format!(
            "state folder `{}`: expected an absolute path, or a folder for temporary files (TMPDIR) whose path has only letters, \
             digits and /._-+@, because scripts of pods contain it",
            state_dir.display()
        )));
    }
    let made = private::create_new_dir(&folder).and_then(|()| symlink(state_dir, folder.join(ALIAS)));
    made.map_err(|source| NodeError::StateDir { path: folder.clone(), source })?;
    Ok(Some(folder))
}

/// Whether a path can stand in shell scripts and in colon-separated lists as it is.
fn needs_no_quoting(dir: &Path) -> bool {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@');
    dir.is_absolute() && dir.to_str().is_some_and(|text| text.chars().all(fits))
}

fn host_and_port(url: &str) -> Result<(String, String), NodeError> {
    let uri: Option<http::Uri> = url.parse().ok();
    let parts = uri.as_ref().and_then(|uri| {
        let default = if uri.scheme_str()? == "https" { 443 } else { 80 };
        Some((uri.host()?.to_owned(), uri.port_u16().unwrap_or(default).to_string()))
    });
    parts.ok_or_else(|| NodeError::Options(format!("`{url}` is not the URL of an API server")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_folder_that_reads_as_two_for_the_reaper_is_refused() {
        let refusal = alias(Path::new("/home/me/a\nb"), "n").unwrap_err().to_string();
        assert!(refusal.contains("without line breaks"), "{refusal}");
        assert_eq!(alias(Path::new("/home/me/a"), "n").unwrap(), None);
    }
}
