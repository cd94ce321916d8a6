//! Work that takes long, outside of the threads that serve requests.

use std::panic::resume_unwind;

/// Runs work on a thread for blocking calls. A panic of the work goes on here.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| resume_unwind(error.into_panic()))
}
