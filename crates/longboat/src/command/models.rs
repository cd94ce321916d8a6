//! `models`: the models of this machine.

use anyhow::{Context, bail};
use longboat_download::address::Scheme;
use longboat_fetch::{Cache, CachedModel, Settings};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{ModelArgs, ModelsCommand, OutputFormat},
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
        ModelsCommand::Show(args) => {
            if let Some(model) = &args.model {
                show(&ModelReference::parse(model, args.file.as_deref())?)
            } else {
                show_catalogue();
                Ok(())
            }
        }
    }
}

async fn pull(args: &ModelArgs) -> anyhow::Result<()> {
    let model = ModelReference::parse(&args.model, args.file.as_deref())?;
    if model.address.scheme() == Scheme::File {
        bail!("{} is on this machine already", model.address);
    }
    let shutdown = longboat_accept::shutdown_token()?;
    let folder = unless_stopped(&shutdown, download(&model)).await?;
    printer::line(&format!("{} is in {}", model.address, folder.display()));
    Ok(())
}

/// Runs a download until the process is stopped.
pub(super) async fn unless_stopped<T>(
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

fn show_catalogue() {
    let width = |column: fn(&catalogue::CatalogueModel) -> usize| {
        catalogue::MODELS.iter().map(column).max().unwrap_or_default()
    };
    let (names, sources) = (width(|model| model.name.len()), width(|model| model.repository.len()) + 5);
    printer::line(
        format!("{:names$}  {:>6}  {:10}  {:sources$}", "NAME", "SIZE", "LICENCE", "SOURCE").trim_end(),
    );
    for model in &catalogue::MODELS {
        let (name, size, licence) = (model.name, model.size(), model.licence);
        printer::line(&format!("{name:names$}  {size:>6}  {licence:10}  hf://{}", model.repository));
    }
    printer::note(
        "`longboat run NAME` downloads a model and runs it; hf://OWNER/MODEL and GGUF files run too",
    );
}

/// Shows what is known about a model without a download.
fn show(model: &ModelReference) -> anyhow::Result<()> {
    let settings = model.patterns.settings(&Settings::from_environment()?);
    let mut rows = vec![("source", model.address.to_string()), ("name", model.name.clone())];
    if let Some(entry) = model.entry {
        rows.push(("size", format!("about {}", entry.size())));
        rows.push(("licence", entry.licence.to_owned()));
    }
    rows.extend(model.patterns.variables().map(|(name, pattern)| (name, pattern.to_owned())));
    match longboat_fetch::local_copy(&model.address, &settings)? {
        Some(path) => rows.push(("on this machine", path.display().to_string())),
        None => rows.push(("on this machine", "no; `longboat models pull` downloads it".into())),
    }
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
