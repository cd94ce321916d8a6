//! Blocking disk work beside async tasks.

use tokio::task::spawn_blocking;

use crate::FetchError;

/// Runs blocking disk work on a thread where it blocks no async task.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}
