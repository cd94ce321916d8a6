//! Chooses the engine of `up`: the CPU engine, the simulator, or the user's command. Also says why.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use anyhow::{Context, bail};
use longboat_download::address::{Address, Scheme};
use longboat_fetch::{Args as FetchArgs, Settings as FetchSettings};
use longboat_manifest::Document;
use longboat_node::Engine;
use longboat_offline::{Settings, scene::Scene};
use tokio::{process::Command, time::timeout};

use super::engine_command;
use crate::{cli::UpArgs, engine_program, printer};

/// The timeout of requests to model sources, all together.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(2);

/// The value of `--engine`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EngineChoice {
    /// The CPU engine if this machine can run the models, else the simulator.
    Auto,
    /// The CPU engine. It is an error if this is not possible.
    Cpu,
    /// The simulator.
    Simulator,
    /// A shell command line.
    Command(String),
}

/// The chosen engine.
pub(crate) struct EngineSelection {
    pub(crate) engine: Engine,
    /// The reason in a few words.
    pub(crate) reason: String,
}

/// A model that a service serves, or an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RequestedModel {
    service: String,
    address: Address,
    is_adapter: bool,
}

/// The source of a model.
enum Source {
    /// In this folder or file.
    Here(PathBuf),
    /// In the hub's own cache, from which the node takes it; with its size in bytes.
    HubCache(u64),
    /// A download of this many bytes.
    Remote(u64),
}

// === impl EngineChoice ===

impl FromStr for EngineChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "sim" => Self::Simulator,
            command => Self::Command(command.to_owned()),
        })
    }
}

// === impl Chosen ===

impl EngineSelection {
    /// Formats the choice as one line for a person.
    pub(crate) fn line(&self) -> String {
        match &self.engine {
            Engine::Cpu(_) => format!("cpu: {}", self.reason),
            Engine::Command(command) => format!("`{command}`"),
            Engine::Simulator => format!(
                "the simulator, because {}: no model is loaded, no weights are downloaded, and answers are \
                 filler text",
                self.reason
            ),
        }
    }
}

/// Chooses by the arguments and the services in the manifests.
///
/// # Errors
///
/// With `--engine cpu`, if that is not possible, and with a command that does not exist; the error says why.
pub(crate) async fn choose(args: &UpArgs, documents: &[Document]) -> anyhow::Result<EngineSelection> {
    let chosen = |engine, reason: &str| Ok(EngineSelection { engine, reason: reason.to_owned() });
    match &args.engine {
        EngineChoice::Simulator => return chosen(Engine::Simulator, "--engine selects it"),
        EngineChoice::Command(command) => {
            engine_command::check(command, std::env::var_os("PATH").as_deref())?;
            return chosen(Engine::Command(command.clone()), "--engine selects it");
        }
        EngineChoice::Auto | EngineChoice::Cpu => {}
    }
    let limit =
        (args.engine == EngineChoice::Auto).then_some(args.max_download.saturating_mul(1_000_000_000));
    match cpu(documents, args.offline, limit).await {
        Ok((program, reason)) => chosen(Engine::Cpu(program), &reason),
        Err(error) if args.engine == EngineChoice::Auto => chosen(Engine::Simulator, &format!("{error:#}")),
        Err(error) => Err(error.context("the CPU engine cannot serve these manifests")),
    }
}

/// Returns the program that can run all models of the services, and a few words about them.
async fn cpu(documents: &[Document], offline: bool, limit: Option<u64>) -> anyhow::Result<(PathBuf, String)> {
    let wanted = models(documents)?;
    if wanted.is_empty() && limit.is_some() {
        bail!("no manifest has a model (use `--engine cpu` to run models that you apply later)");
    }
    let mut settings = FetchSettings::from_environment()?;
    if offline {
        settings = settings.offline();
    }
    let program = engine_program::find();
    let builder = engine_program::Builder::of_this_process();
    if program.is_none() && builder.is_none() {
        bail!("{}", engine_program::missing());
    }
    let asked = futures::future::try_join_all(wanted.iter().map(|model| source(model, &settings)));
    let sources = timeout(SOURCE_TIMEOUT, asked)
        .await
        .map_err(|_| anyhow::anyhow!("the source of a model did not answer within {SOURCE_TIMEOUT:?}"))??;
    let download = sources.iter().map(|source| if let Source::Remote(bytes) = source { *bytes } else { 0 });
    let download: u64 = download.sum();
    if let Some(limit) = limit.filter(|limit| download > *limit) {
        bail!(
            "the download of {} exceeds the {} of `--max-download` (`--engine cpu` has no limit)",
            size(download),
            size(limit)
        );
    }
    let program = match (program, builder) {
        (Some(program), _) => program,
        (None, Some(builder)) => {
            printer::note(
                "building `longboat-engine`, which runs the model; this takes some minutes, only once",
            );
            builder.build().await?
        }
        (None, None) => bail!("{}", engine_program::missing()),
    };
    let mut reasons = Vec::new();
    for (model, source) in wanted.iter().zip(&sources) {
        let kind = judged(&program, model, source, &settings).await?;
        let comes = match source {
            Source::Here(path) => format!("from {}", path.display()),
            Source::HubCache(_) => "from the Hugging Face cache".to_owned(),
            Source::Remote(bytes) => format!("downloads {} from {}", size(*bytes), model.address),
        };
        reasons.push(format!("{} ({kind}; {comes})", model.address));
    }
    if reasons.is_empty() {
        reasons.push("the models that you apply".into());
    }
    Ok((program, format!("runs {}", reasons.join(", "))))
}

/// Returns the models that the services serve, and their adapters, without duplicates.
///
/// # Errors
///
/// If a service needs a feature that the CPU engine does not have.
fn models(documents: &[Document]) -> anyhow::Result<Vec<RequestedModel>> {
    let scene = Scene::new(documents, &Settings::default())?;
    let mut wanted: Vec<RequestedModel> = Vec::new();
    for subject in scene.subjects.iter().filter(|subject| subject.given) {
        let metadata = &subject.service.metadata;
        let service = metadata.name.clone().unwrap_or_default();
        let effective = scene
            .compose(&subject.service)
            .with_context(|| format!("cannot compose the spec of {service}"))?;
        let spec = &effective.spec;
        let halves: Vec<_> = std::iter::once(&spec.workload).chain(spec.prefill.as_deref()).collect();
        let lacks = [
            (halves.iter().any(|half| half.kv_cache_offloading.is_some()), "KV cache offloading"),
            (halves.iter().any(|half| half.worker.is_some()), "a model that spans several pods"),
        ];
        if let Some((_, what)) = lacks.iter().find(|(needed, _)| *needed) {
            bail!("{service} needs {what}, which the CPU engine does not have");
        }
        let model = (spec.model.uri.address(), false);
        let adapters = longboat_compose::adapters(spec)
            .with_context(|| format!("cannot compose the spec of {service}"))?;
        let adapters = adapters.into_iter().map(|adapter| (adapter.address, true));
        for (address, is_adapter) in std::iter::once(model).chain(adapters) {
            let service = service.clone();
            if !wanted.iter().any(|known| known.address == address) {
                wanted.push(RequestedModel { service, address, is_adapter });
            }
        }
    }
    Ok(wanted)
}

/// Returns the source of a model.
async fn source(model: &RequestedModel, settings: &FetchSettings) -> anyhow::Result<Source> {
    let RequestedModel { service, address, is_adapter } = model;
    if address.scheme() == Scheme::Claim {
        let what = if *is_adapter { "an adapter" } else { "the model" };
        bail!("{what} of {service} is on a PersistentVolumeClaim, which is empty on this machine");
    }
    if let Some(path) = longboat_fetch::local_copy(address, settings)? {
        return Ok(Source::Here(path));
    }
    if let Ok(listing) = longboat_fetch::list_source(address, &settings.offline()).await {
        return Ok(Source::HubCache(listing.bytes.unwrap_or_default()));
    }
    let listing = longboat_fetch::list_source(address, settings).await?;
    let ending = |ending: &str| listing.files.iter().filter(|file| file.ends_with(ending)).count();
    if *is_adapter {
        if ending("adapter_config.json") == 0 || ending("adapter_model.safetensors") == 0 {
            bail!(
                "{address} has no LoRA adapter: expected adapter_config.json and adapter_model.safetensors"
            );
        }
    } else if ending(".gguf") != 1 && (ending(".safetensors") == 0 || ending("config.json") == 0) {
        bail!("{address} has no model: expected config.json with safetensors files, or one GGUF file");
    }
    let bytes = listing
        .bytes
        .with_context(|| format!("the source of {address} does not report the size of the model"))?;
    Ok(Source::Remote(bytes))
}

/// Returns the engine's verdict about a model, from its headers or, before the download, from its `config.json`.
async fn judged(
    program: &Path,
    model: &RequestedModel,
    source: &Source,
    settings: &FetchSettings,
) -> anyhow::Result<String> {
    if model.is_adapter {
        return Ok("LoRA adapter".into());
    }
    let (bytes, settings) = match source {
        Source::Here(path) => return check(program, path, None).await,
        Source::HubCache(bytes) => (*bytes, settings.offline()),
        Source::Remote(bytes) => (*bytes, settings.clone()),
    };
    let folder = tempfile::tempdir()?;
    let pairs = vec![model.address.as_str().to_owned(), folder.path().display().to_string()];
    let only =
        settings.with("STORAGE_ALLOW_PATTERNS", "config.json").with(longboat_download::CACHE_VARIABLE, "");
    let fetched = longboat_fetch::run_with(FetchArgs { pairs, mode: None }, &only, None);
    match timeout(SOURCE_TIMEOUT, fetched).await {
        Ok(Ok(())) => check(program, folder.path(), Some(bytes)).await,
        // A GGUF file describes the model in its own header.
        Ok(Err(longboat_fetch::FetchError::Empty { .. })) => Ok(format!("GGUF, {}", size(bytes))),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => bail!("the source of {} did not answer within {SOURCE_TIMEOUT:?}", model.address),
    }
}

async fn check(program: &Path, model: &Path, bytes: Option<u64>) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.arg("check").arg(model).args(bytes.map(|bytes| bytes.to_string())).kill_on_drop(true);
    let output = command.output().await.with_context(|| format!("cannot start `{}`", program.display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let error = text(&output.stderr);
    bail!("{}", error.strip_prefix("error: ").unwrap_or(&error))
}

/// Formats a number of bytes for people.
fn size(bytes: u64) -> String {
    if bytes >= 1_000_000_000 {
        return format!("{}.{} GB", bytes / 1_000_000_000, bytes % 1_000_000_000 / 100_000_000);
    }
    format!("{} MB", bytes.div_ceil(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(rest: &str) -> Vec<Document> {
        let text = format!(
            "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: a}}\n\
             spec:\n  model: {{uri: hf://o/m, name: m}}\n{rest}"
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        std::fs::write(&file, text).unwrap();
        longboat_manifest::read(&[file]).unwrap()
    }

    #[test]
    fn services_that_the_engine_cannot_serve_are_named_with_what_they_need() {
        let wanted = models(&service("")).unwrap();
        assert_eq!(
            wanted,
            [RequestedModel { service: "a".into(), address: Address::parse("hf://o/m"), is_adapter: false }]
        );
        assert_eq!(models(&service("  prefill: {replicas: 1}\n")).unwrap(), wanted);
        let offloading = "  prefill: {replicas: 1, kvCacheOffloading: {cpu: 1Gi}}\n";
        let error = models(&service(offloading)).unwrap_err().to_string();
        assert_eq!(error, "a needs KV cache offloading, which the CPU engine does not have");
        assert_eq!(models(&[]).unwrap(), []);
    }

    #[test]
    fn whatever_is_no_word_of_ours_is_a_command() {
        let choice = |text: &str| text.parse::<EngineChoice>().unwrap();
        assert_eq!(choice("auto"), EngineChoice::Auto);
        assert_eq!(choice("sim"), EngineChoice::Simulator);
        assert_eq!(choice("vllm"), EngineChoice::Command("vllm".into()));
    }
}
