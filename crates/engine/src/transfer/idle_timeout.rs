//! How long an engine waits for another one.

use std::{io, time::Duration};

use tokio::time::timeout;

/// How long a peer may neither send nor receive.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for a peer, for at most [`IDLE_TIMEOUT`].
pub(super) async fn before_idle_timeout<T>(waiting: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(IDLE_TIMEOUT, waiting).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
