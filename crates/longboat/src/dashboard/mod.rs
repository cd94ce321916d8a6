//! Connects the dashboard's server with this binary.

mod cluster;
mod head;

use std::sync::Arc;

use longboat_dashboard::{CONNECT_TIMEOUT, Reach, Server, local_client};
use tokio_util::sync::CancellationToken;

pub(crate) use self::cluster::ClusterBackend;
use crate::tree::Environment;

/// Serves the page until shutdown.
///
/// # Errors
///
/// If no HTTP client can be created.
pub(crate) fn serve(
    server: Server,
    here: ClusterBackend,
    shutdown: CancellationToken,
) -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let reach = reach(here.environment)?;
    let http = match here.environment {
        Environment::Laptop => local_client(None).build()?,
        // Certificates are verified outside of local mode.
        Environment::Cluster => reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).build()?,
    };
    let client = here.client.clone();
    Ok(server.run(Arc::new(here), client, reach, http, shutdown))
}

/// Returns how to reach pods.
///
/// # Errors
///
/// If no HTTP client can be created.
pub(crate) fn reach(environment: Environment) -> anyhow::Result<Reach> {
    Ok(match environment {
        Environment::Laptop => Reach::direct()?,
        Environment::Cluster => Reach::proxied(),
    })
}
