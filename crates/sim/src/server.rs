//! The server process of the simulator.

use std::sync::Arc;

use axum::{Json, http::StatusCode, middleware, routing::get};
use longboat_api::vllm;
use longboat_serving::RunError;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Simulator, args::Args, identity::Identity};

/// Binds the configured address and serves until `shutdown`. Then no new requests are accepted, and running requests may take
/// `--shutdown-timeout` to finish.
pub async fn run(args: Args, shutdown: CancellationToken) -> Result<(), RunError> {
    let listener = longboat_serving::listen(args.server.address).await?;
    serve(args, listener, shutdown).await
}

/// Serves on an existing listener.
pub async fn serve(args: Args, listener: TcpListener, shutdown: CancellationToken) -> Result<(), RunError> {
    let refused = args.refused_by_vllm();
    if !refused.is_empty() {
        tracing::warn!(
            flags = refused.join(" "),
            "vLLM {} has no such flags, and would not start with them.",
            vllm::version()
        );
    }
    if !args.server.ignored.is_empty() {
        tracing::info!(flags = args.server.ignored.join(" "), "These flags have no effect in the simulator.");
    }
    tracing::info!(
        address = listener.local_addr().map(tracing::field::display).ok(),
        model = args.server.model,
        names = args.server.names.join(" "),
        "Serving simulated answers: no model is loaded and no weights are read.",
    );
    let identity = Identity::from_env(args.port());
    let listening = args.server.listen.clone();
    let simulator = Arc::new(Simulator::new(args));
    // Dropping the tasks would end them.
    let _events = simulator
        .publish(&shutdown)
        .await
        .map_err(|(address, source)| RunError::Listen { address, source })?;
    let engines = simulator.engines();
    let mut router = longboat_serving::router(simulator.clone())
        .route("/query", get(move || std::future::ready(Json(engines))))
        // Of llm-d's simulator, which vLLM does not have.
        .route("/ready", get(async || StatusCode::OK));
    if let Some(path) = simulator.own_metrics_path() {
        router = router.route(path, get(move || std::future::ready(simulator.page())));
    }
    let router =
        router.layer(middleware::map_response(move |response| std::future::ready(identity.mark(response))));
    longboat_serving::serve(router, listener, listening, shutdown).await
}
