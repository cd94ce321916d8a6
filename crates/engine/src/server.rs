//! The server process of the engine.

use std::{path::Path, sync::Arc};

use longboat_serving::{Purpose, RunError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    Args, Engine, LoadError, blocking::blocking, embedder::Embedder, engine::open, pooling::PoolingConfig,
    render::Renderer, transfer, weights::Weights,
};

/// Why the engine cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The model cannot be loaded.
    #[error("cannot load the model")]
    Load(#[from] LoadError),
    /// The server cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Binds the address, loads the model, and serves until `shutdown`.
pub async fn run(args: Args, shutdown: CancellationToken) -> Result<(), EngineError> {
    let listener = longboat_serving::listen(args.server.address).await?;
    serve(args, listener, shutdown).await
}

/// Binds the address, reads the model's tokenizer, and serves the tokens of prompts until `shutdown`.
pub async fn render(args: Args, shutdown: CancellationToken) -> Result<(), EngineError> {
    let listener = longboat_serving::listen(args.server.address).await?;
    log_ignored_flags(&args);
    let listening = args.server.listen.clone();
    let renderer = blocking(move || Renderer::load(&args)).await?;
    tracing::info!(address = listener.local_addr().map(tracing::field::display).ok(), "Rendering prompts.");
    longboat_serving::serve(longboat_serving::router(Arc::new(renderer)), listener, listening, shutdown)
        .await?;
    Ok(())
}

/// Returns the pooling of an embedding model. Returns `None` for a generation model.
fn pooling(args: &Args, folder: &Path, weights: &Weights) -> Result<Option<PoolingConfig>, LoadError> {
    match args.server.purpose {
        Purpose::Auto => PoolingConfig::of(folder, weights),
        Purpose::Answers => Ok(None),
        Purpose::Vectors => Ok(Some(PoolingConfig::of(folder, weights)?.unwrap_or(PoolingConfig::DEFAULT))),
    }
}

/// A loaded model, by its use.
enum LoadedModel {
    Answers(Arc<Engine>),
    Embeds(Arc<Embedder>),
}

fn load(args: &Args) -> Result<LoadedModel, LoadError> {
    let (folder, weights) = open(args)?;
    Ok(match pooling(args, folder, &weights)? {
        None => LoadedModel::Answers(Arc::new(Engine::load_from(args, folder, &weights)?)),
        Some(pooling) => LoadedModel::Embeds(Arc::new(Embedder::load(args, folder, &weights, pooling)?)),
    })
}

fn log_ignored_flags(args: &Args) {
    if !args.server.ignored.is_empty() {
        tracing::info!(
            flags = args.server.ignored.join(" "),
            "These flags have no effect in the CPU engine."
        );
    }
}

/// Loads the model and serves it on an existing listener.
pub async fn serve(
    args: Args,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), EngineError> {
    log_ignored_flags(&args);
    let listening = args.server.listen.clone();
    let host = args.server.address.ip();
    let engine = match blocking(move || load(&args)).await? {
        LoadedModel::Answers(engine) => engine,
        LoadedModel::Embeds(embedder) => {
            tracing::info!(address = listener.local_addr().map(tracing::field::display).ok(), "Serving.");
            let router = longboat_serving::router(embedder);
            return Ok(longboat_serving::serve(router, listener, listening, shutdown).await?);
        }
    };
    let listen_error = |(address, source)| RunError::Listen { address, source };
    // The servers for other engines and for pickers end with these tasks. The server of KV caches goes on after
    // `shutdown`, because decode engines fetch a prompt after its request has ended.
    let mut background = Vec::new();
    if let Some(connector) = engine.connector() {
        background.push(transfer::serve(connector.server()).await.map_err(listen_error)?);
    }
    if let Some(events) = engine.events() {
        background.push(events.serve(host, &shutdown).await.map_err(listen_error)?);
    }
    tracing::info!(address = listener.local_addr().map(tracing::field::display).ok(), "Serving.");
    let shutdown_timeout = listening.shutdown_timeout;
    let deadline = async {
        shutdown.cancelled().await;
        tokio::time::sleep(shutdown_timeout).await;
    };
    let router = longboat_serving::router(engine.clone());
    let serving = async {
        longboat_serving::serve(router, listener, listening, shutdown.clone()).await?;
        if let Some(connector) = engine.connector() {
            connector.drain().await;
        }
        Ok::<_, EngineError>(())
    };
    let served = tokio::select! {
        // At the deadline, the server reports the requests that it aborts.
        biased;
        served = serving => served,
        () = deadline => Ok(()),
    };
    drop(background);
    served
}
