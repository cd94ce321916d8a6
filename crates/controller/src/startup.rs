//! What must be known before the first reconcile.

use std::convert::Infallible;

use tokio::sync::mpsc;

/// Waits for everything that must be known before the first reconcile. A reconcile that sees only half of the children would
/// delete the other half.
#[derive(Clone)]
pub(crate) struct Startup {
    expected: mpsc::Sender<Infallible>,
}

/// Exists until something expected is known.
pub(crate) struct StartupGuard(#[expect(dead_code, reason = "held to be dropped")] mpsc::Sender<Infallible>);

// === impl Startup ===

impl Startup {
    /// Creates the two ends. Nothing is ever sent: the channel closes when everything expected is known.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Infallible>) {
        let (expected, known) = mpsc::channel(1);
        (Self { expected }, known)
    }

    /// Expects something. The caller drops the result when it is known.
    pub(crate) fn expect(&self) -> StartupGuard {
        StartupGuard(self.expected.clone())
    }
}
