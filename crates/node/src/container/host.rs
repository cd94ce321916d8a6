//! What containers get from this machine and from their pod: folders, variables, credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use longboat_accept::{KV_TOKEN_VARIABLE, POD_ADDRESS_VARIABLE};
use longboat_download::{CACHE_VARIABLE, MODE_VARIABLE, MODELS_VARIABLE, PATIENCE_VARIABLE};

use super::credentials::{Credentials, listed};
use super::paths::PathMap;
use crate::mounts::Mounts;
use crate::options::Engine;
use crate::reaper::NODE_ID;

/// Host variables that containers inherit, unless the engine is the user's own command. With them, programs find their
/// locale, libraries, devices, proxies and caches. An entry that ends in `*` is a prefix.
const INHERITED: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "TERM",
    "LD_LIBRARY_PATH",
    "DYLD_*",
    "CUDA_*",
    "NVIDIA_*",
    "HIP_*",
    "ROCR_*",
    "HF_*",
    "XDG_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "RUST_LOG",
    "RUST_BACKTRACE",
];

/// Host variables about downloads and logs, which every container inherits: the user's settings also apply to this node.
const SETTINGS: [&str; 5] = [CACHE_VARIABLE, MODELS_VARIABLE, PATIENCE_VARIABLE, "LONGBOAT_LOG", LOG_FORMAT];

/// The variable with the format of logs.
const LOG_FORMAT: &str = "LONGBOAT_LOG_FORMAT";

/// Other host variables that no container inherits, because they would point it to another cluster or node.
const NEVER_INHERITED: &[&str] =
    &["KUBECONFIG", "KUBERNETES_*", "LONGBOAT_*", "PATH", "PWD", "OLDPWD", "SHLVL", "_"];

/// Settings that all containers of a node share.
#[derive(Debug)]
pub(crate) struct Host {
    /// The folder with the links of the roles; first in PATH.
    pub(crate) bin_dir: PathBuf,
    /// The PATH of the node's own process.
    pub(crate) path: String,
    /// The host variables that containers inherit.
    pub(crate) inherited: Vec<(String, String)>,
    /// The host's credentials for stores, which only downloads inherit.
    pub(crate) credentials: Credentials,
    /// The program that runs as `vllm`.
    pub(crate) engine: Engine,
    /// Whether models may only come from this machine.
    pub(crate) offline: bool,
    /// Whether the gateway picks in place of the processes of pickers.
    pub(crate) gateway_picks: bool,
    /// The folder in which pickers write traces of their requests.
    pub(crate) traces: Option<PathBuf>,
    /// The id that marks the node's processes for the reaper.
    pub(crate) node_id: String,
    /// How containers see their volumes at the paths of the manifest; `None` if paths are rewritten.
    pub(crate) mounts: Option<Arc<Mounts>>,
    /// The commands that run in place of images, by the name of their repository.
    pub(crate) images: BTreeMap<String, Vec<String>>,
    /// The secret that engines need to exchange KV caches, so that other users of the machine cannot.
    pub(crate) kv_token: String,
}

impl Host {
    /// Collects the settings from this process's variables.
    pub(crate) fn new(
        bin_dir: PathBuf,
        engine: Engine,
        offline: bool,
        node_id: String,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let mut path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
        let mut inherited = Vec::new();
        let mut credentials = Credentials::default();
        for (key, value) in variables {
            credentials.take(&key, &value);
            if key == "PATH" {
                path = value;
            } else if SETTINGS.contains(&key.as_str())
                || (!listed(NEVER_INHERITED, &key)
                    && (matches!(engine, Engine::Command(_)) || listed(INHERITED, &key)))
            {
                // Containers start in other folders than this process.
                let is_folder =
                    [CACHE_VARIABLE, MODELS_VARIABLE].contains(&key.as_str()) && !value.is_empty();
                let absolute = std::path::absolute(&value).ok().filter(|_| is_folder);
                let value = absolute.map_or(value, |path| path.to_string_lossy().into_owned());
                inherited.push((key, value));
            }
        }
        let kv_token = format!("{:032x}", rand::random::<u128>());
        let images = BTreeMap::new();
        Self {
            bin_dir,
            path,
            inherited,
            credentials,
            engine,
            offline,
            gateway_picks: false,
            traces: None,
            node_id,
            mounts: None,
            images,
            kv_token,
        }
    }

    /// Returns the paths of this machine that containers need: their programs, and the files that variables name.
    pub(crate) fn needed_paths(&self) -> BTreeSet<PathBuf> {
        let engine = match &self.engine {
            Engine::Simulator => String::new(),
            Engine::Cpu(program) => program.to_string_lossy().into_owned(),
            Engine::Command(command) => command.replace(char::is_whitespace, ":"),
        };
        let values = self.inherited.iter().map(|(_, value)| value).chain([&self.path, &engine]);
        let paths = values.flat_map(|value| value.split(':')).filter(|path| path.starts_with('/'));
        paths.map(PathBuf::from).collect()
    }
}

/// Settings that all containers of a pod share.
#[derive(Debug, Clone)]
pub(crate) struct PodSite {
    pub(crate) pod_name: String,
    pub(crate) pod_ip: String,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) api_host: String,
    pub(crate) api_port: String,
    /// The local folders of the pod's volumes.
    pub(crate) volumes: BTreeMap<String, PathBuf>,
}

/// Builds the variables of a process from the host's variables, the manifest's, and the node's.
pub(super) fn environment(
    host: &Host,
    site: &PodSite,
    manifest: &BTreeMap<String, String>,
    paths: &PathMap,
) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = host.inherited.iter().cloned().collect();
    if let Some(tmp) = paths.local("/tmp") {
        env.insert("TMPDIR".to_owned(), tmp);
    }
    // Somebody reads the logs of a laptop's pods without a collector.
    env.entry(LOG_FORMAT.to_owned()).or_insert_with(|| "text".to_owned());
    let defaults = [
        ("HOSTNAME", site.pod_name.clone()),
        ("KUBERNETES_SERVICE_HOST", site.api_host.clone()),
        ("KUBERNETES_SERVICE_PORT", site.api_port.clone()),
        ("KUBECONFIG", site.kubeconfig.to_string_lossy().into_owned()),
        // There is no DNS, so ranks meet at an IP address. Further attempts to resolve it would only cost time.
        ("DP_ADDRESS_RESOLVE_ATTEMPTS", "1".to_owned()),
    ];
    env.extend(defaults.map(|(key, value)| (key.to_owned(), value)));
    env.extend(manifest.iter().map(|(key, value)| (key.clone(), paths.rewrite(value))));
    let path = env.get("PATH").unwrap_or(&host.path);
    let path = format!("{}:{path}", host.bin_dir.display());
    // The manifest cannot replace these: by one of them, the reaper finds the node's processes.
    let added = [
        ("PATH", path),
        (POD_ADDRESS_VARIABLE, site.pod_ip.clone()),
        (NODE_ID, host.node_id.clone()),
        (KV_TOKEN_VARIABLE, host.kv_token.clone()),
    ];
    env.extend(added.map(|(key, value)| (key.to_owned(), value)));
    // The simulator needs no weights, so the download is skipped, which the role logs. Weights for a real engine are cached
    // for the next run and for other services.
    let fetch = match host.engine {
        Engine::Simulator => "skip",
        _ if host.offline => "offline",
        _ => "cache",
    };
    env.insert(MODE_VARIABLE.to_owned(), fetch.to_owned());
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_have_the_cache_the_patience_and_the_log_filter_of_the_user() {
        let variables = [
            ("LONGBOAT_CACHE", "models"),
            ("LONGBOAT_FETCH_PATIENCE", "7"),
            ("LONGBOAT_FETCH_PROGRESS", "/elsewhere"),
            ("LONGBOAT_LOG", "debug"),
        ];
        let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let host = Host::new("/lb/bin".into(), Engine::Simulator, false, "node-1".into(), variables);
        let cache = std::env::current_dir().unwrap().join("models").display().to_string();
        let expected =
            [("LONGBOAT_CACHE", cache.as_str()), ("LONGBOAT_FETCH_PATIENCE", "7"), ("LONGBOAT_LOG", "debug")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(host.inherited, expected);
    }
}
