//! `models`: the models of this machine.

use anyhow::{Context, bail};
use longboat_download::address::Scheme;
use longboat_fetch::{Cache, CachedModel, Settings};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{ModelArgs, ModelsCommand, OutputFormat},
    engine_program,
    model::{ModelReference, ProgressBar, catalogue, size},
    printer,
};

/// Downloads, shows or removes models.
pub(super) fn run(command: &ModelsCommand) -> anyhow::Result<()> {
    let cache = || Cache::from_environment()?.context("no folder for the cache: set LONGBOAT_CACHE or HOME");
    match command {
        ModelsCommand::Pull(args) => longboat_fetch::runtime()?.block_on(pull(args)),
        ModelsCommand::Ls(args) => list(&cache()?, args.output),
        ModelsCommand::Rm(args) if args.all => {
            let cache = cache()?;
            let names: Vec<String> = cache.list()?.iter().map(folder).collect();
            remove(&cache, &names)
        }
        ModelsCommand::Rm(args) => remove(&cache()?, &args.models),
        ModelsCommand::Show(args) => match &args.model {
            Some(model) => {
                let model = ModelReference::parse(model, args.file.as_deref())?;
                longboat_fetch::runtime()?.block_on(show(&model, args.output))
            }
            None => show_catalogue(args.output),
        },
    }
}

async fn pull(args: &ModelArgs) -> anyhow::Result<()> {
    let model = ModelReference::parse(&args.model, args.file.as_deref())?;
    if model.address.scheme() == Scheme::File {
        bail!("{} is on this machine already", model.address);
    }
    let shutdown = longboat_accept::shutdown_token()?;
    let folder = until_stopped(&shutdown, download(&model)).await?;
    printer::line(&format!("{} is in {}", model.address, folder.display()));
    Ok(())
}

/// Runs a download until the process is stopped.
pub(super) async fn until_stopped<T>(
    shutdown: &CancellationToken,
    download: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let stopped = "stopped; the downloaded files are kept, and the next run resumes the download";
    shutdown.run_until_cancelled(download).await.context(stopped)?
}

/// Downloads a model into the cache, with a progress bar on a terminal. Returns its folder.
pub(super) async fn download(model: &ModelReference) -> anyhow::Result<std::path::PathBuf> {
    let settings = model.patterns.settings(&Settings::from_environment()?);
    let bar = ProgressBar::new();
    longboat_fetch::pull(&model.address, &settings, bar.watcher())
        .await
        .with_context(|| format!("cannot download {}", model.address))
}

fn show_catalogue(output: OutputFormat) -> anyhow::Result<()> {
    let source = |model: &catalogue::CatalogueModel| format!("hf://{}", model.repository);
    if output != OutputFormat::Text {
        let models = catalogue::MODELS.iter().map(|model| {
            json!({"name": model.name, "bytes": model.megabytes * 1_000_000, "licence": model.licence, "source": source(model)})
        });
        return printer::data(&models.collect::<Vec<_>>(), output);
    }
    let names = catalogue::MODELS.iter().map(|model| model.name.len()).max().unwrap_or_default();
    printer::line(&format!("{:names$}  {:>6}  {:10}  SOURCE", "NAME", "SIZE", "LICENCE"));
    for model in &catalogue::MODELS {
        let (name, size, licence) = (model.name, model.size(), model.licence);
        printer::line(&format!("{name:names$}  {size:>6}  {licence:10}  {}", source(model)));
    }
    printer::note(
        "`longboat run NAME` downloads a model and runs it; hf://OWNER/MODEL and GGUF files run too",
    );
    Ok(())
}

/// Shows what is known about a model without a download.
async fn show(model: &ModelReference, output: OutputFormat) -> anyhow::Result<()> {
    let settings = model.patterns.settings(&Settings::from_environment()?);
    let copy = longboat_fetch::local_copy(&model.address, &settings)?;
    let mut rows = vec![("source", model.address.to_string()), ("name", model.name.clone())];
    if let Some(entry) = model.entry {
        rows.push(("size", format!("about {}", entry.size())));
        rows.push(("licence", entry.licence.to_owned()));
    }
    rows.extend(model.patterns.variables().map(|(name, pattern)| (name, pattern.to_owned())));
    if let (Some(path), Some(program)) = (&copy, engine_program::find()) {
        match engine_program::check(&program, path, None).await {
            Ok(description) => rows.push(("model", description)),
            Err(error) if model.address.scheme() == Scheme::File => return Err(error),
            Err(error) => rows.push(("model", format!("the CPU engine cannot serve it: {error:#}"))),
        }
    }
    if output != OutputFormat::Text {
        let mut shown: serde_json::Map<_, _> =
            rows.into_iter().map(|(name, text)| (name.to_owned(), json!(text))).collect();
        shown.insert("path".into(), json!(copy));
        return printer::data(&shown, output);
    }
    rows.push(match copy {
        Some(path) => ("path", path.display().to_string()),
        None => ("path", "not on this machine; `longboat models pull` downloads it".into()),
    });
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in rows {
        printer::line(&format!("{name:width$}  {value}"));
    }
    Ok(())
}

fn folder(model: &CachedModel) -> String {
    model.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn list(cache: &Cache, output: OutputFormat) -> anyhow::Result<()> {
    let models = cache.list()?;
    if output != OutputFormat::Text {
        let models: Vec<_> = models
            .iter()
            .map(|model| {
                json!({"source": model.source, "folder": model.folder, "bytes": model.bytes, "files": model.files,
                    "complete": model.complete})
            })
            .collect();
        return printer::data(&models, output);
    }
    if models.is_empty() {
        printer::note(&format!("no models in {}", cache.root().display()));
        return Ok(());
    }
    let width = models.iter().map(|model| model.source.chars().count()).max().unwrap_or(0).max(6);
    printer::line(&format!("{:width$}  {:>9}  {:>5}  FOLDER", "SOURCE", "SIZE", "FILES"));
    for model in &models {
        let size = size(model.bytes);
        let unfinished = if model.complete { "" } else { "  (unfinished)" };
        let line = format!(
            "{:width$}  {size:>9}  {:>5}  {}{unfinished}",
            model.source,
            model.files,
            model.folder.display()
        );
        printer::line(&line);
    }
    Ok(())
}

fn remove(cache: &Cache, names: &[String]) -> anyhow::Result<()> {
    for name in names {
        let meant = catalogue::find(name).map(|model| format!("hf://{}", model.repository));
        let removed = cache.remove(meant.as_ref().unwrap_or(name))?;
        if removed.is_empty() {
            bail!("no model `{name}` in {}: `longboat models ls` lists the models", cache.root().display());
        }
        for model in removed {
            printer::line(&format!("removed {} ({})", model.source, size(model.bytes)));
        }
    }
    Ok(())
}
