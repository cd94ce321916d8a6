//! The loader: keeps the LoRA adapters of a list loaded in the engine of its pod, while the engine runs.
//!
//! The engine's own list of models is the only record of what is loaded, so neither a restart of the engine nor one of the loader loses
//! anything. In each pass, the loader unloads what it once loaded and the list no longer has, and downloads and loads what is missing.

mod engine;
mod page;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    net::IpAddr,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use longboat_download::{
    adapters::{AdapterReport, ENGINE_KEY_VARIABLE, LOADER_PORT, ListedAdapter, MAX_LIST_BYTES},
    address::Address,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval},
};

pub use self::engine::{MAX_WORDS, parse_models, words};
use self::{
    engine::{Engine, EngineError, ServedModel},
    page::Page,
};
use crate::{Args, FetchError, Settings};

/// The time between two passes: how long a change of the list, or a restart of the engine, may go unnoticed.
const PASS_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait after a failure before the adapter is tried again; the time doubles up to the maximum.
const FIRST_RETRY: Duration = Duration::from_secs(5);
const MAX_RETRY: Duration = Duration::from_mins(5);

/// How the loader reaches the engine, and where it keeps adapters.
#[derive(Debug, Clone, clap::Args)]
pub struct LoaderArgs {
    /// Instead of downloading SOURCE to DEST: the file with the list of LoRA adapters to keep loaded in the engine of this pod
    #[arg(long, hide = true, conflicts_with = "pairs")]
    pub adapter_list: Option<PathBuf>,
    /// The folder that has a folder for each adapter. The engine sees it at the same path
    #[arg(long, hide = true, default_value = "/mnt/adapters")]
    pub adapter_folder: PathBuf,
    /// The engine's port at the address of the pod
    #[arg(long, hide = true, default_value_t = 8000)]
    pub engine_port: u16,
    /// Whether the engine serves TLS. Its certificate is not verified, because it is in the same pod
    #[arg(long, hide = true)]
    pub engine_tls: bool,
    /// The address of the pod
    #[arg(long, hide = true, default_value = "127.0.0.1")]
    pub pod_ip: IpAddr,
}

/// Downloads one adapter into a folder.
type Download = Box<dyn Fn(Address, PathBuf) -> JoinHandle<Result<(), FetchError>> + Send>;

struct Loader {
    list: PathBuf,
    root: PathBuf,
    engine: Engine,
    page: Arc<Page>,
    download: Download,
    /// How far the adapters are, by folder.
    attempts: HashMap<String, Attempt>,
}

/// How far an adapter is on its way to the engine.
enum Attempt {
    Downloading {
        task: JoinHandle<Result<(), FetchError>>,
        before: Option<Failure>,
    },
    /// The files are complete. They stay, so a restarted engine gets the adapter without its source.
    Downloaded,
    Failed {
        failure: Failure,
        at: Instant,
    },
}

/// Why an attempt failed, and how long the next one waits.
struct Failure {
    error: String,
    wait: Duration,
}

/// Keeps the adapters of the list loaded, until the future is dropped. Downloads as [`crate::run`] with this mode does.
pub async fn keep_adapters_loaded(
    list: PathBuf,
    args: &LoaderArgs,
    mode: Option<String>,
    settings: Settings,
) -> Result<(), FetchError> {
    let page = Arc::new(Page::default());
    let mut loader = Loader {
        list,
        engine: Engine::new(
            (args.pod_ip, args.engine_port).into(),
            args.engine_tls,
            settings.get(ENGINE_KEY_VARIABLE).map(str::to_owned),
        )?,
        root: args.adapter_folder.clone(),
        page: page.clone(),
        download: Box::new(move |source, folder| {
            let pairs = vec![source.as_str().to_owned(), folder.to_string_lossy().into_owned()];
            let (args, settings) = (Args { pairs, mode: mode.clone() }, settings.clone());
            tokio::spawn(async move { crate::run_with(args, &settings, None).await })
        }),
        attempts: HashMap::new(),
    };
    let passes = async {
        let mut ticks = interval(PASS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            loader.pass().await;
        }
    };
    tokio::select! {
        () = passes => Ok(()),
        result = page::serve((args.pod_ip, LOADER_PORT).into(), &page) => result,
    }
}

// === impl Loader ===

impl Loader {
    async fn pass(&mut self) {
        let listed = match self.listed().await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(error, "Cannot read the list of LoRA adapters.");
                return;
            }
        };
        let served = match self.engine.models().await {
            Ok(served) => served,
            Err(error) => {
                tracing::debug!(%error, "The engine does not list its models.");
                // A new engine has no adapters. A busy one has only not answered in time, and keeps its traffic.
                if matches!(error, EngineError::Down(_)) {
                    self.page.engine_is_down();
                }
                return;
            }
        };
        self.attempts.retain(|folder, attempt| {
            let stays = listed.iter().any(|adapter| adapter.folder == *folder);
            if let (false, Attempt::Downloading { task, .. }) = (stays, attempt) {
                task.abort();
            }
            stays
        });
        self.sweep(&listed, &served).await;
        // First what goes, because the engine may have no room for more.
        self.unload(&listed, &served).await;
        let mut reports = Vec::with_capacity(listed.len());
        let mut is_pending = false;
        for adapter in &listed {
            let path = self.root.join(&adapter.folder);
            let lacks = |model: &&String| !served.iter().any(|known| known.is(model, &path));
            let lacking: Vec<&String> = adapter.models.iter().filter(lacks).collect();
            let loaded = lacking.is_empty() || self.load(adapter, &lacking, &path, &served).await;
            let failure = match self.attempts.get(&adapter.folder) {
                Some(
                    Attempt::Failed { failure, .. } | Attempt::Downloading { before: Some(failure), .. },
                ) => Some(failure),
                _ => None,
            };
            let error = failure.filter(|_| !loaded).map(|failure| failure.error.clone());
            is_pending |= !loaded && error.is_none();
            let (name, folder) = (adapter.name.clone(), adapter.folder.clone());
            reports.push(AdapterReport { name, folder, loaded, error });
        }
        self.page.publish(reports, !is_pending);
    }

    /// Reads the list.
    async fn listed(&self) -> Result<Vec<ListedAdapter>, String> {
        let path = self.list.clone();
        let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        let text = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        parse_list(&text)
    }

    /// Unloads the adapters that this loader once loaded and that nobody lists.
    async fn unload(&self, listed: &[ListedAdapter], served: &[ServedModel]) {
        for model in served.iter().filter(|model| model.folder_in(&self.root).is_some()) {
            // The same name with other weights is replaced in place, so that no request for it fails.
            if listed.iter().any(|adapter| adapter.models.contains(&model.id)) {
                continue;
            }
            match self.engine.unload(&model.id).await {
                Ok(()) => tracing::info!(model = model.id, "Unloaded a LoRA adapter."),
                Err(error) => tracing::warn!(model = model.id, %error, "Cannot unload a LoRA adapter."),
            }
        }
    }

    /// Brings an adapter nearer to the engine. Returns whether the engine has it now.
    async fn load(
        &mut self,
        adapter: &ListedAdapter,
        lacking: &[&String],
        path: &Path,
        served: &[ServedModel],
    ) -> bool {
        let before = match self.attempts.remove(&adapter.folder) {
            Some(Attempt::Downloaded) => None,
            Some(Attempt::Downloading { task, before }) if task.is_finished() => {
                let ended = task.await.map_err(|error| error.to_string());
                if let Err(error) =
                    ended.and_then(|result| result.map_err(|error| longboat_tls::chain(&error)))
                {
                    self.fail(adapter, error, before);
                    return false;
                }
                before
            }
            Some(Attempt::Failed { failure, at }) if at <= Instant::now() => {
                self.start(adapter, path, Some(failure));
                return false;
            }
            Some(waits) => {
                self.attempts.insert(adapter.folder.clone(), waits);
                return false;
            }
            None => {
                self.start(adapter, path, None);
                return false;
            }
        };
        for model in lacking {
            let replaces = served.iter().any(|known| known.id == **model);
            if let Err(error) = self.engine.load(model, path, replaces).await {
                self.fail(adapter, error.to_string(), before);
                return false;
            }
            tracing::info!(model = model.as_str(), path = %path.display(), "Loaded a LoRA adapter.");
        }
        self.attempts.insert(adapter.folder.clone(), Attempt::Downloaded);
        true
    }

    /// Starts the download of an adapter. After a failure, too: files that are complete are only checked.
    fn start(&mut self, adapter: &ListedAdapter, path: &Path, before: Option<Failure>) {
        let task = (self.download)(Address::parse(adapter.uri.as_str()), path.to_owned());
        self.attempts.insert(adapter.folder.clone(), Attempt::Downloading { task, before });
    }

    fn fail(&mut self, adapter: &ListedAdapter, error: String, before: Option<Failure>) {
        tracing::warn!(adapter = adapter.name, error, "Cannot load a LoRA adapter.");
        let wait = before.map_or(FIRST_RETRY, |failure| (failure.wait * 2).min(MAX_RETRY));
        let failed = Attempt::Failed { failure: Failure { error, wait }, at: Instant::now() + wait };
        self.attempts.insert(adapter.folder.clone(), failed);
    }

    /// Deletes the folders of adapters that are neither listed nor loaded.
    async fn sweep(&self, listed: &[ListedAdapter], served: &[ServedModel]) {
        let root = self.root.clone();
        let mut kept: HashSet<OsString> = listed.iter().map(|adapter| (&adapter.folder).into()).collect();
        kept.extend(served.iter().filter_map(|model| Some(model.folder_in(&self.root)?.to_owned())));
        let swept = tokio::task::spawn_blocking(move || {
            for entry in std::fs::read_dir(root)? {
                let entry = entry?;
                if !kept.contains(&entry.file_name()) && entry.file_type()?.is_dir() {
                    std::fs::remove_dir_all(entry.path())?;
                }
            }
            Ok::<_, std::io::Error>(())
        });
        if let Ok(Err(error)) = swept.await {
            tracing::warn!(path = %self.root.display(), %error, "Cannot delete the files of LoRA adapters.");
        }
    }
}

/// Parses the list. A name that would lead out of the folder is refused.
pub fn parse_list(text: &[u8]) -> Result<Vec<ListedAdapter>, String> {
    if text.len() > MAX_LIST_BYTES {
        return Err(format!("the list has more than {MAX_LIST_BYTES} bytes"));
    }
    let listed: Vec<ListedAdapter> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let leads_out = |adapter: &&ListedAdapter| {
        let mut parts = Path::new(&adapter.folder).components();
        // The whole text, because `a/` is the folder `a` too, but not its name.
        (parts.next(), parts.next()) != (Some(Component::Normal(OsStr::new(&adapter.folder))), None)
    };
    match listed.iter().find(leads_out) {
        Some(adapter) => Err(format!("`{}` is not the name of a folder", adapter.folder)),
        None => Ok(listed),
    }
}
