//! Connections to the API server that a cut network cannot hold.

use std::time::Duration;

use kube::{Client, Config, Error};

/// How long an API server may send nothing on a connection that waits for it. On a watch it sends a bookmark each minute. Without this
/// limit, a connection that a network has dropped without a word counts as a quiet watch for five minutes.
const READ_TIMEOUT: Duration = Duration::from_secs(100);

/// Returns the same configuration with a limit for silent connections. Not for commands that run in a container, where silence is
/// normal.
pub fn with_read_timeout(mut config: Config) -> Config {
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    config
}

/// Creates a client for the cluster of KUBECONFIG, or for the cluster that this pod runs in.
///
/// # Errors
///
/// If there is no such configuration, or it cannot be used.
pub async fn client() -> Result<Client, Error> {
    let config = Config::infer().await.map_err(Error::InferConfig)?;
    Client::try_from(with_read_timeout(config))
}
