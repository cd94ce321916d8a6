//! The server process of the engine.

use std::{path::Path, sync::Arc};

use longboat_serving::{Purpose, RunError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    Args, Engine, LoadError, embedder::Embedder, engine::open, pooling::PoolingConfig, render::Renderer,
    transfer, weights::Weights,
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
    say_ignored(&args);
    let listening = args.server.listen.clone();
    let loading = tokio::task::spawn_blocking(move || Renderer::load(&args));
    let renderer = loading.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    tracing::info!(address = listener.local_addr().map(tracing::field::display).ok(), "Rendering prompts.");
    longboat_serving::serve(longboat_serving::router(Arc::new(renderer)), listener, listening, shutdown)
        .await?;
    Ok(())
}

/// Returns the pooling of an embedding model. Returns `None` for a generation model.
fn made(args: &Args, folder: &Path, weights: &Weights) -> Result<Option<PoolingConfig>, LoadError> {
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
    Ok(match made(args, folder, &weights)? {
        None => LoadedModel::Answers(Arc::new(Engine::load_from(args, folder, &weights)?)),
        Some(made) => LoadedModel::Embeds(Arc::new(Embedder::load(args, folder, &weights, made)?)),
    })
}

fn say_ignored(args: &Args) {
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
    say_ignored(&args);
    let listening = args.server.listen.clone();
    let host = args.server.address.ip();
    let loading = tokio::task::spawn_blocking(move || load(&args));
    let loaded = loading.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    let engine = match loaded {
        LoadedModel::Answers(engine) => engine,
        LoadedModel::Embeds(embedder) => {
            tracing::info!(address = listener.local_addr().map(tracing::field::display).ok(), "Serving.");
            let router = longboat_serving::router(embedder);
            return Ok(longboat_serving::serve(router, listener, listening, shutdown).await?);
        }
    };
    let taken = |(address, source)| RunError::Listen { address, source };
    // The servers for other engines and for pickers end with these tasks. The one that hands over KV caches goes on after
    // `shutdown`, because decode engines fetch a prompt after its request has ended.
    let mut others = Vec::new();
    if let Some(exchange) = engine.exchange() {
        others.push(transfer::serve(exchange.host()).await.map_err(taken)?);
    }
    if let Some(events) = engine.events() {
        others.push(events.serve(host, &shutdown).await.map_err(taken)?);
    }
    tracing::info!(address = listener.local_addr().map(tracing::field::display).ok(), "Serving.");
    let patience = listening.patience;
    let out_of_time = async {
        shutdown.cancelled().await;
        tokio::time::sleep(patience).await;
    };
    let router = longboat_serving::router(engine.clone());
    let serving = async {
        longboat_serving::serve(router, listener, listening, shutdown.clone()).await?;
        if let Some(exchange) = engine.exchange() {
            exchange.until_fetched().await;
        }
        Ok::<_, EngineError>(())
    };
    let served = tokio::select! {
        // At the deadline, the server reports the requests that it aborts.
        biased;
        served = serving => served,
        () = out_of_time => Ok(()),
    };
    drop(others);
    served
}
