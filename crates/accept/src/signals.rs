//! SIGINT and SIGTERM.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that the first SIGINT or SIGTERM cancels. The second signal ends the process at once with exit code 130.
///
/// # Errors
///
/// If the process may not handle signals, or if there is no tokio runtime.
pub fn shutdown_token() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    // Registered before this returns: a signal that comes while the process starts must not kill it.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let requested = token.clone();
    tokio::spawn(async move {
        for again in [false, true] {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if again {
                std::process::exit(130);
            }
            requested.cancel();
        }
    });
    Ok(token)
}
