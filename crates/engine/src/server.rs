//! The process of the engine.

use std::sync::Arc;

use longboat_serving::{Listening, RunError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Args, Engine, LoadError, render::Renderer, transfer};

/// The engine cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The model cannot be loaded.
    #[error("cannot load the model")]
    Load(#[from] LoadError),
    /// The server cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Takes the address, loads the model, and serves until `shutdown`.
pub async fn run(args: Args, shutdown: CancellationToken) -> Result<(), EngineError> {
    let listener = longboat_serving::listen(args.address()).await?;
    serve(args, listener, shutdown).await
}

/// Takes the address, reads the model's tokenizer, and serves what prompts are as tokens, until `shutdown`.
pub async fn render(args: Args, shutdown: CancellationToken) -> Result<(), EngineError> {
    let listener = longboat_serving::listen(args.address()).await?;
    say_ignored(&args);
    let listening = Listening { certificate: args.certificate.clone(), patience: args.shutdown_timeout };
    let loading = tokio::task::spawn_blocking(move || Renderer::load(&args));
    let renderer = loading.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    tracing::info!(address = listener.local_addr().map(tracing::field::display).ok(), "Rendering prompts.");
    longboat_serving::serve(longboat_serving::router(Arc::new(renderer)), listener, listening, shutdown)
        .await?;
    Ok(())
}

fn say_ignored(args: &Args) {
    if !args.ignored.is_empty() {
        tracing::info!(flags = args.ignored.join(" "), "These flags have no effect in the CPU engine.");
    }
}

/// Loads the model and serves it on a listener that exists already.
pub async fn serve(
    args: Args,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), EngineError> {
    say_ignored(&args);
    let listening = Listening { certificate: args.certificate.clone(), patience: args.shutdown_timeout };
    let host = args.host;
    let loading = tokio::task::spawn_blocking(move || Engine::load(&args));
    let engine = loading.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    let taken = |(address, source)| RunError::Listen { address, source };
    // What serves other engines and pickers ends with these.
    let mut others = Vec::new();
    if let Some(exchange) = engine.exchange() {
        others.push(transfer::serve(exchange, &shutdown).await.map_err(taken)?);
    }
    if let Some(events) = engine.events() {
        others.push(events.serve(host, &shutdown).await.map_err(taken)?);
    }
    tracing::info!(address = listener.local_addr().map(tracing::field::display).ok(), "Serving.");
    longboat_serving::serve(longboat_serving::router(Arc::new(engine)), listener, listening, shutdown)
        .await?;
    drop(others);
    Ok(())
}
