//! Chooses the engine of `up`: the CPU engine, the simulator, or the user's command. Also says why.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::PodSpec;
use longboat_api::names::STORAGE_INITIALIZER;
use longboat_download::{
    ALLOW_VARIABLE, IGNORE_VARIABLE,
    address::{Address, Scheme},
};
use longboat_fetch::{Args as FetchArgs, Settings as FetchSettings};
use longboat_manifest::Document;
use longboat_node::Engine;
use longboat_offline::{Settings, scene::Scene};
use owo_colors::OwoColorize;
use tokio::time::timeout;

use super::engine_command;
use crate::{
    cli::{EngineChoice, LocalArgs},
    engine_program,
    model::{FilePatterns, catalogue, size},
    printer,
};

/// The timeout of requests to model sources, all together. The simulator is no worse for manifests without such a model, so
/// nobody should wait long for it.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(2);
/// The same timeout if nothing but the model will do.
const REQUIRED_SOURCE_TIMEOUT: Duration = Duration::from_secs(20);
/// The sizes, in bytes, of the beginnings of a GGUF file in which its description is looked for. With a vocabulary of 256
/// thousand tokens, the description has 12 MiB.
const GGUF_HEADS: [usize; 2] = [4 << 20, 32 << 20];
/// How long to wait for the beginning of a GGUF file. After that, the model is downloaded unchecked.
const GGUF_HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The most files that a message names.
const MAX_NAMED_FILES: usize = 12;

/// The chosen engine.
pub(crate) struct EngineSelection {
    pub(crate) engine: Engine,
    /// The reason in a few words.
    pub(crate) reason: String,
    /// Whether the simulator answers only because the CPU engine cannot.
    is_fallback: bool,
}

/// A model that a service serves, or an adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RequestedModel {
    service: String,
    address: Address,
    /// The files that the service downloads.
    patterns: FilePatterns,
    is_adapter: bool,
}

/// The source of a model.
enum Source {
    /// In this folder or file.
    Here(PathBuf),
    /// In the hub's own cache, from which the node takes it; with its size in bytes.
    HubCache(SourceContent),
    /// A download.
    Remote(SourceContent),
}

/// What a source has.
struct SourceContent {
    /// The size in bytes.
    bytes: u64,
    /// The name of the file, if the model is a GGUF file.
    gguf: Option<String>,
}

// === impl EngineSelection ===

impl EngineSelection {
    /// Formats the choice for a person. If the simulator is the last resort, a second line says how to get a real answer.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} {}", "engine:".bold(), self.line())];
        if self.is_fallback {
            let smallest = &catalogue::MODELS[0];
            lines.push(format!(
                "{} `longboat run {}` downloads a small model ({}) and answers with it; `longboat run FILE.gguf` takes one \
                 of this machine",
                "real answers:".bold(),
                smallest.name,
                smallest.size(),
            ));
        }
        lines
    }

    fn line(&self) -> String {
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
pub(crate) async fn choose(args: &LocalArgs, documents: &[Document]) -> anyhow::Result<EngineSelection> {
    let chosen =
        |engine, reason: &str| Ok(EngineSelection { engine, reason: reason.to_owned(), is_fallback: false });
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
        Err(error) if args.engine == EngineChoice::Auto => {
            // Without the program of the engine, no other model would get a real answer either.
            let is_fallback =
                engine_program::find().is_some() || engine_program::Builder::of_this_process().is_some();
            Ok(EngineSelection { engine: Engine::Simulator, reason: format!("{error:#}"), is_fallback })
        }
        Err(error) => Err(error.context("the CPU engine cannot run the model")),
    }
}

/// Returns the program that can run all models of the services, and a few words about them.
async fn cpu(documents: &[Document], offline: bool, limit: Option<u64>) -> anyhow::Result<(PathBuf, String)> {
    let requested = models(documents)?;
    if requested.is_empty() && limit.is_some() {
        bail!("no manifest has a model (use `--engine cpu` to run models that you apply later)");
    }
    let patience = if limit.is_some() { SOURCE_TIMEOUT } else { REQUIRED_SOURCE_TIMEOUT };
    let mut settings = FetchSettings::from_environment()?.attended();
    if offline {
        settings = settings.offline();
    }
    let program = engine_program::find();
    let builder = engine_program::Builder::of_this_process();
    // Said before the sources are asked, which takes seconds.
    if program.is_none() && builder.is_none() {
        bail!("{}", engine_program::missing());
    }
    let asked = futures::future::try_join_all(requested.iter().map(|model| source(model, &settings)));
    let sources = timeout(patience, asked).await.map_err(|_| {
        let patience = longboat_quantity::duration::text(patience);
        anyhow::anyhow!("the source of a model did not answer within {patience}")
    })??;
    let download =
        sources.iter().map(|source| if let Source::Remote(listed) = source { listed.bytes } else { 0 });
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
    for (model, source) in requested.iter().zip(&sources) {
        let kind = judged(&program, model, source, &settings, patience).await?;
        let comes = match source {
            Source::Here(path) => format!("from {}", path.display()),
            Source::HubCache(_) => "from the Hugging Face cache".to_owned(),
            Source::Remote(listed) => format!("downloads {} from {}", size(listed.bytes), model.address),
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
    let mut requested: Vec<RequestedModel> = Vec::new();
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
        let patterns = download_patterns(spec.workload.template.as_deref());
        let model = (spec.model.uri.address(), false);
        let adapters = longboat_compose::adapters(spec)
            .with_context(|| format!("cannot compose the spec of {service}"))?;
        let adapters = adapters.into_iter().map(|adapter| (adapter.address, true));
        for (address, is_adapter) in std::iter::once(model).chain(adapters) {
            let (service, patterns) = (service.clone(), patterns.clone());
            if !requested.iter().any(|known| known.address == address && known.patterns == patterns) {
                requested.push(RequestedModel { service, address, patterns, is_adapter });
            }
        }
    }
    Ok(requested)
}

/// Returns the patterns that the pod template has for its download.
fn download_patterns(template: Option<&PodSpec>) -> FilePatterns {
    let containers = template.iter().flat_map(|template| template.init_containers.iter().flatten());
    let env: Vec<_> = containers
        .filter(|container| container.name == STORAGE_INITIALIZER)
        .flat_map(|container| container.env.iter().flatten())
        .collect();
    let value = |name: &str| env.iter().find(|variable| variable.name == name)?.value.clone();
    FilePatterns { allow: value(ALLOW_VARIABLE), ignore: value(IGNORE_VARIABLE) }
}

/// Returns the source of a model.
async fn source(model: &RequestedModel, settings: &FetchSettings) -> anyhow::Result<Source> {
    let RequestedModel { service, address, patterns, is_adapter } = model;
    let settings = &patterns.settings(settings);
    if address.scheme() == Scheme::Claim {
        let what = if *is_adapter { "an adapter" } else { "the model" };
        bail!("{what} of {service} is on a PersistentVolumeClaim, which is empty on this machine");
    }
    if let Some(path) = longboat_fetch::local_copy(address, settings)? {
        return Ok(Source::Here(path));
    }
    // First without a network: what is in the hub's cache needs none, and starts at once.
    if let Ok(listing) = longboat_fetch::list_source(address, &settings.offline()).await {
        return Ok(Source::HubCache(SourceContent {
            bytes: listing.bytes.unwrap_or_default(),
            gguf: only_gguf(&listing.files).map(str::to_owned),
        }));
    }
    let listing = longboat_fetch::list_source(address, settings).await?;
    let ending = |ending: &str| listing.files.iter().filter(|file| file.ends_with(ending)).count();
    let gguf = only_gguf(&listing.files);
    if *is_adapter {
        if ending("adapter_config.json") == 0 || ending("adapter_model.safetensors") == 0 {
            bail!(
                "{address} has no LoRA adapter: expected adapter_config.json and adapter_model.safetensors"
            );
        }
    } else if gguf.is_none() && (ending(".safetensors") == 0 || ending("config.json") == 0) {
        if ending(".gguf") > 1 {
            bail!("{address} {}", several_files(&listing.files));
        }
        bail!("{address} has no model: expected config.json with safetensors files, or one GGUF file");
    }
    // Without the size, nobody could keep to `--max-download`.
    let bytes = listing
        .bytes
        .with_context(|| format!("the source of {address} does not report the size of the model"))?;
    Ok(Source::Remote(SourceContent { bytes, gguf: gguf.map(str::to_owned) }))
}

/// Returns the name of the file, if the model is one GGUF file.
fn only_gguf(files: &[String]) -> Option<&str> {
    let mut found = files.iter().filter(|file| is_gguf(file));
    let has_others =
        files.iter().any(|file| Path::new(file).extension().is_some_and(|end| end == "safetensors"));
    match (found.next(), found.next()) {
        (Some(file), None) if !has_others => Some(file),
        _ => None,
    }
}

fn is_gguf(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension == "gguf")
}

/// Says how to choose one of several GGUF files.
fn several_files(files: &[String]) -> String {
    let mut names: Vec<&str> = files.iter().map(String::as_str).filter(|file| is_gguf(file)).collect();
    let left_out = names.len().saturating_sub(MAX_NAMED_FILES);
    names.truncate(MAX_NAMED_FILES);
    let more = if left_out > 0 { format!(" and {left_out} more") } else { String::new() };
    format!(
        "has several GGUF files: choose one with `longboat run --file`, or in a manifest with the variable {ALLOW_VARIABLE} \
         of its init container {STORAGE_INITIALIZER}; it has {}{more}",
        names.join(", ")
    )
}

/// Returns the engine's verdict about a model, from its headers or, before the download, from its `config.json`.
async fn judged(
    program: &Path,
    model: &RequestedModel,
    source: &Source,
    settings: &FetchSettings,
    patience: Duration,
) -> anyhow::Result<String> {
    if model.is_adapter {
        return Ok("LoRA adapter".into());
    }
    let (listed, settings) = match source {
        Source::Here(path) => return engine_program::check(program, path, None).await,
        Source::HubCache(listed) => (listed, settings.offline()),
        Source::Remote(listed) => (listed, settings.clone()),
    };
    let (bytes, settings) = (listed.bytes, model.patterns.settings(&settings));
    if let Some(file) = &listed.gguf {
        let judged = timeout(GGUF_HEAD_TIMEOUT, gguf_head(program, &model.address, file, bytes, &settings));
        return judged.await.unwrap_or_else(|_| Ok(format!("GGUF, {}, not checked yet", size(bytes))));
    }
    let folder = tempfile::tempdir()?;
    let pairs = vec![model.address.as_str().to_owned(), folder.path().display().to_string()];
    // Not into the cache, which would then have a model of one file.
    let only = settings.with(ALLOW_VARIABLE, "config.json").with(longboat_download::CACHE_VARIABLE, "");
    let fetched = longboat_fetch::run_with(FetchArgs { pairs, mode: None }, &only, None);
    match timeout(patience, fetched).await {
        Ok(Ok(())) => engine_program::check(program, folder.path(), Some(bytes)).await,
        Ok(Err(error)) => Err(error.into()),
        Err(_) => {
            let patience = longboat_quantity::duration::text(patience);
            bail!("the source of {} did not answer within {patience}", model.address)
        }
    }
}

/// Returns the engine's verdict about a GGUF file, from its beginning.
async fn gguf_head(
    program: &Path,
    address: &Address,
    file: &str,
    bytes: u64,
    settings: &FetchSettings,
) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    // The engine compares its header with the size of the file. The rest of the file is a hole, which needs no space.
    let head = folder.path().join("head.gguf");
    let mut judged = Ok(String::new());
    for limit in GGUF_HEADS {
        let read = longboat_fetch::read_head(address, file, limit, settings).await?;
        let is_whole = read.len() < limit;
        tokio::fs::write(&head, read).await?;
        tokio::fs::OpenOptions::new().write(true).open(&head).await?.set_len(bytes).await?;
        judged = engine_program::check(program, &head, None).await;
        // A header that is cut off looks malformed, so more of it is read before a verdict.
        if judged.is_ok() || is_whole {
            break;
        }
    }
    // The engine names the temporary file, of which a person knows nothing.
    judged.map_err(|error| {
        let text = format!("{error:#}");
        anyhow::anyhow!("{}", text.replace(&head.display().to_string(), &format!("{address} {file}")))
    })
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
        let requested = models(&service("")).unwrap();
        assert_eq!(
            requested,
            [RequestedModel {
                service: "a".into(),
                address: Address::parse("hf://o/m"),
                patterns: FilePatterns::default(),
                is_adapter: false
            }]
        );
        assert_eq!(models(&service("  prefill: {replicas: 1}\n")).unwrap(), requested);
        let offloading = "  prefill: {replicas: 1, kvCacheOffloading: {cpu: 1Gi}}\n";
        let error = models(&service(offloading)).unwrap_err().to_string();
        assert_eq!(error, "a needs KV cache offloading, which the CPU engine does not have");
        assert_eq!(models(&[]).unwrap(), []);
        let template = "  template:\n    initContainers:\n    - name: storage-initializer\n      \
                        env: [{name: STORAGE_ALLOW_PATTERNS, value: \"*.json\"}]\n";
        let requested = models(&service(template)).unwrap();
        assert_eq!(requested[0].patterns, FilePatterns { allow: Some("*.json".into()), ignore: None });
    }

    #[test]
    fn a_repository_is_one_gguf_file_or_says_how_to_choose_one() {
        let files = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(only_gguf(&files(&["README.md", "m.gguf"])), Some("m.gguf"));
        assert_eq!(only_gguf(&files(&["a.gguf", "b.gguf"])), None);
        // With safetensors beside it, the engine takes these.
        assert_eq!(only_gguf(&files(&["m.gguf", "m.safetensors"])), None);
        let many: Vec<String> = (0..20).map(|number| format!("m-{number:02}.gguf")).collect();
        let said = several_files(&many);
        assert!(said.contains("`longboat run --file`") && said.ends_with("m-11.gguf and 8 more"), "{said}");
    }

    #[test]
    fn whatever_is_no_word_of_ours_is_a_command() {
        let choice = |text: &str| text.parse::<EngineChoice>().unwrap();
        assert_eq!(choice("auto"), EngineChoice::Auto);
        assert_eq!(choice("sim"), EngineChoice::Simulator);
        assert_eq!(choice("vllm"), EngineChoice::Command("vllm".into()));
    }
}
