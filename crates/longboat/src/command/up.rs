//! `longboat up`: runs manifests on this machine.

use std::{process::ExitCode, time::Duration};

use longboat_fetch::FetchError;
use longboat_local::{StartError, StateError};
use tokio_util::sync::CancellationToken;

use super::input;
use crate::{
    cli::UpArgs,
    printer,
    runtime::runtime,
    up::{
        edits::Edits,
        engine,
        session::{Purpose, Session},
    },
};

/// What works if a model cannot be downloaded.
const WITHOUT_NETWORK: &str = "without a network, use a GGUF file, a folder, or a model that `longboat models ls` shows; with \
                               `--engine sim`, no model is needed";

/// Runs `up`.
pub(crate) fn run(args: UpArgs) -> ExitCode {
    finish(|| async { up(args, longboat_accept::shutdown_token()?).await })
}

/// Runs a local cluster to its end.
pub(super) fn finish<F>(work: impl FnOnce() -> F) -> ExitCode
where
    F: Future<Output = anyhow::Result<()>>,
{
    let result = runtime().and_then(|runtime| {
        let result = runtime.block_on(async { work().await });
        // A read of standard input may still block; nothing depends on it.
        runtime.shutdown_timeout(Duration::from_millis(200));
        result
    });
    match result.and_then(|()| printer::check()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            printer::error(&error, hint(&error).as_deref());
            ExitCode::FAILURE
        }
    }
}

/// Returns a hint for errors with an obvious solution.
fn hint(error: &anyhow::Error) -> Option<String> {
    if error.is::<longboat_dashboard::BindError>() {
        return Some("choose another port with `--dashboard-port`".into());
    }
    match error.downcast_ref::<FetchError>() {
        Some(FetchError::Unreachable { .. }) => {
            return Some(format!(
                "if this machine reaches the web through a proxy, set HTTPS_PROXY; {WITHOUT_NETWORK}"
            ));
        }
        Some(FetchError::Offline { .. }) => return Some(WITHOUT_NETWORK.to_owned()),
        _ => {}
    }
    match error.downcast_ref::<StartError>()? {
        StartError::Port { what: "gateway", .. } => {
            Some("choose another port with `--port`, or use `--port 0` for any free port".into())
        }
        StartError::Port { .. } => Some("choose another port with `--api-port`".into()),
        StartError::State(StateError::InUse { .. }) => {
            Some("stop the other `longboat up`, or use another folder with `--state`".into())
        }
        StartError::State(StateError::Io { .. }) => {
            Some("expected a folder in which you may write: `--state` names it, or TMPDIR if it is a temporary one".into())
        }
        _ => None,
    }
}

async fn up(args: UpArgs, shutdown: CancellationToken) -> anyhow::Result<()> {
    let inputs = args.manifests.files();
    if inputs.is_empty() && (args.local.state.is_none() || args.watch) {
        anyhow::bail!("no manifest given: pass a file, a folder, or `-` for standard input");
    }
    let mut edits = args.watch.then(|| Edits::new(args.manifests.clone())).transpose()?;
    let prepare = async {
        let documents = if inputs.is_empty() {
            Vec::new()
        } else {
            // The state of an earlier run may have definitions of further kinds.
            let has_state = args.local.state.is_some();
            let read = move || input::accepted_documents(&inputs, has_state, ", so nothing was started");
            tokio::task::spawn_blocking(read).await??
        };
        let engine = engine::choose(&args.local, &documents).await?;
        anyhow::Ok((documents, engine))
    };
    // Standard input may stay open, and the source of a model may be silent: a signal ends both.
    let Some(prepared) = shutdown.run_until_cancelled(prepare).await else { return Ok(()) };
    let (documents, engine) = prepared?;
    if let Some(edits) = &mut edits {
        edits.start_with(documents.clone());
    }
    for line in engine.lines() {
        printer::note(&line);
    }
    let purpose = Purpose::Serve { prompt: args.prompt, once: args.once, edits };
    Session { args: &args.local, port: args.port, engine, documents, purpose }.run(shutdown).await
}
