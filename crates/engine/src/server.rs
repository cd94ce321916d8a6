//! The process of the engine.

use std::sync::Arc;

use longboat_serving::{Listening, RunError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Args, Engine, LoadError};

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

/// Loads the model and serves it on a listener that exists already.
pub async fn serve(
    args: Args,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), EngineError> {
    if !args.ignored.is_empty() {
        tracing::info!(flags = args.ignored.join(" "), "These flags have no effect in the CPU engine.");
    }
    let listening = Listening { certificate: args.certificate.clone(), patience: args.shutdown_timeout };
    let loading = tokio::task::spawn_blocking(move || Engine::load(&args));
    let engine = loading.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    tracing::info!(address = listener.local_addr().map(tracing::field::display).ok(), "Serving.");
    longboat_serving::serve(longboat_serving::router(Arc::new(engine)), listener, listening, shutdown)
        .await?;
    Ok(())
}
