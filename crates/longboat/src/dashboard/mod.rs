//! The dashboard: what its server needs of this binary.

mod cluster;

use std::sync::Arc;

use kube::Client;
use longboat_dashboard::{Reach, Server};
use tokio_util::sync::CancellationToken;

use self::cluster::Here;
use crate::{
    tree::{Environment, Scope},
    up::service,
};

/// Serves the page until shutdown.
///
/// # Errors
/// When no HTTP client can be made.
pub(crate) fn serve(
    server: Server,
    client: Client,
    environment: Environment,
    scope: Scope,
    shutdown: CancellationToken,
) -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let reach = reach(environment)?;
    let http = match environment {
        Environment::Laptop => service::http()?,
        // Elsewhere certificates count.
        Environment::Cluster => reqwest::Client::builder().connect_timeout(service::PATIENCE).build()?,
    };
    let cluster = Arc::new(Here::new(client.clone(), environment, scope));
    Ok(server.run(cluster, client, reach, http, shutdown))
}

/// The way to pods.
///
/// # Errors
/// When no HTTP client can be made.
pub(crate) fn reach(environment: Environment) -> anyhow::Result<Reach> {
    Ok(match environment {
        Environment::Laptop => Reach::direct()?,
        Environment::Cluster => Reach::proxied(),
    })
}
