//! `models`: the models that local mode keeps between runs.

use anyhow::{Context, bail};
use longboat_fetch::{Cache, CachedModel};
use serde_json::json;

use crate::{
    cli::{ModelsCommand, OutputFormat},
    printer,
};

/// Shows or removes models.
pub(super) fn run(command: &ModelsCommand) -> anyhow::Result<()> {
    let cache = Cache::from_environment()?.context("no folder for the cache: set LONGBOAT_CACHE or HOME")?;
    match command {
        ModelsCommand::Ls(args) => list(&cache, args.output),
        ModelsCommand::Rm(args) if args.all => {
            let names: Vec<String> = cache.list()?.iter().map(folder).collect();
            remove(&cache, &names)
        }
        ModelsCommand::Rm(args) => remove(&cache, &args.models),
    }
}

fn folder(model: &CachedModel) -> String {
    model.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn list(cache: &Cache, output: OutputFormat) -> anyhow::Result<()> {
    let models = cache.list()?;
    if output == OutputFormat::Json {
        let models: Vec<_> = models
            .iter()
            .map(|model| {
                json!({"source": model.source, "folder": model.folder, "bytes": model.bytes, "files": model.files,
                    "complete": model.complete})
            })
            .collect();
        printer::line(&serde_json::to_string_pretty(&models)?);
        return Ok(());
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
        let removed = cache.remove(name)?;
        if removed.is_empty() {
            bail!("no model `{name}` in {}: `longboat models ls` lists the models", cache.root().display());
        }
        for model in removed {
            printer::line(&format!("removed {} ({})", model.source, size(model.bytes)));
        }
    }
    Ok(())
}

/// Formats a number of bytes for people.
fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        1_000_000_000.. => (1_000_000_000, "GB"),
        1_000_000.. => (1_000_000, "MB"),
        _ => (1_000, "kB"),
    };
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
}
