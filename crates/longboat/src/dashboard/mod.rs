//! The dashboard: what its server needs of this binary.

mod cluster;

use std::sync::Arc;

use kube::Client;
use longboat_dashboard::{Reach, Server};
use tokio_util::sync::CancellationToken;

use self::cluster::Here;
use crate::{
    tree::{Place, Scope},
    up::service,
};

/// Serves the page until shutdown.
///
/// # Errors
/// When no HTTP client can be made.
pub(crate) fn serve(
    server: Server,
    client: Client,
    place: Place,
    scope: Scope,
    shutdown: CancellationToken,
) -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let reach = reach(place)?;
    let http = match place {
        Place::Laptop => service::http()?,
        // Elsewhere certificates count.
        Place::Cluster => reqwest::Client::builder().connect_timeout(service::PATIENCE).build()?,
    };
    let cluster = Arc::new(Here::new(client.clone(), place, scope));
    Ok(server.run(cluster, client, reach, http, shutdown))
}

/// The way to pods.
///
/// # Errors
/// When no HTTP client can be made.
pub(crate) fn reach(place: Place) -> anyhow::Result<Reach> {
    Ok(match place {
        Place::Laptop => Reach::direct()?,
        Place::Cluster => Reach::proxied(),
    })
}
