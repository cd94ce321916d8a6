//! `longboat run`: a model instead of a manifest. It makes the manifest and goes on as `up`.

use std::{
    io::{IsTerminal, Read},
    process::ExitCode,
};

use anyhow::{Context, bail};
use longboat_download::address::Scheme;
use longboat_fetch::Settings;
use tokio::task::spawn_blocking;

use super::{models, up};
use crate::{
    cli::{EngineChoice, RunArgs},
    model::ModelReference,
    printer,
    up::{
        chat::Conversation,
        engine,
        interrupts::Interrupts,
        session::{Purpose, Session},
    },
};

/// The port of the gateway with `--serve`, as that of `up`.
const PORT: u16 = 8080;

/// The longest prompt on standard input, in bytes. No model of a laptop reads more.
const MAX_PROMPT: u64 = 4 << 20;

/// Runs `run`.
pub(crate) fn run(args: RunArgs) -> ExitCode {
    up::finish(|| model(args))
}

async fn model(mut args: RunArgs) -> anyhow::Result<()> {
    if is_manifest(&args.model.model) {
        bail!("`{0}` is a manifest: `longboat up {0}` runs it", args.model.model);
    }
    let model = ModelReference::parse(&args.model.model, args.model.file.as_deref())?;
    let manifest = model.manifest();
    if args.manifest {
        printer::write_piece(&manifest);
        return Ok(());
    }
    let (interrupts, shutdown) = Interrupts::listen()?;
    let prompt = match args.prompt.take() {
        None if !args.serve && !std::io::stdin().is_terminal() => {
            // The program that sends the prompt may never end it.
            let piped = shutdown.run_until_cancelled(spawn_blocking(piped_prompt)).await;
            let Some(prompt) = piped else { return Ok(()) };
            Some(prompt??)
        }
        prompt => prompt,
    };
    // The API server checks it again, as every manifest.
    let documents = longboat_manifest::parse("run", &manifest)?;
    // A person who names a model wants its answers, not those of the simulator.
    if args.local.engine == EngineChoice::Auto {
        args.local.engine = EngineChoice::Cpu;
    }
    let prepare = async {
        let engine = engine::choose(&args.local, &documents).await?;
        if args.local.engine == EngineChoice::Cpu && !args.local.offline {
            download(&model).await?;
        }
        anyhow::Ok(engine)
    };
    let engine = models::until_stopped(&shutdown, prepare).await?;
    for line in engine.lines() {
        printer::note(&line);
    }
    let port = args.port.unwrap_or(if args.serve { PORT } else { 0 });
    let purpose = if args.serve {
        Purpose::Serve { prompt, once: false, edits: None }
    } else {
        Purpose::Converse {
            conversation: Conversation::new(args.system.take(), args.temperature),
            prompt,
            interrupts,
        }
    };
    Session { args: &args.local, port, engine, documents, purpose }.run(shutdown).await
}

/// Whether a person named a manifest instead of a model.
fn is_manifest(text: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|ending| text.ends_with(ending)) && !text.contains("://")
}

/// Downloads the model before the service starts, so that the service finds it in the cache.
async fn download(model: &ModelReference) -> anyhow::Result<()> {
    let settings = model.patterns.settings(&Settings::from_environment()?);
    if model.address.scheme() != Scheme::File
        && longboat_fetch::local_copy(&model.address, &settings)?.is_none()
    {
        models::download(model).await?;
    }
    Ok(())
}

/// Reads the prompt that another program sends.
fn piped_prompt() -> anyhow::Result<String> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MAX_PROMPT + 1).read_to_string(&mut text);
    let count = read.context("cannot read the prompt from standard input: expected UTF-8 text")?;
    if count as u64 > MAX_PROMPT {
        bail!("the prompt on standard input has more than {MAX_PROMPT} bytes");
    }
    if text.trim().is_empty() {
        bail!("standard input has no prompt: pass the prompt as argument, or `--serve` to keep the API");
    }
    Ok(text)
}
