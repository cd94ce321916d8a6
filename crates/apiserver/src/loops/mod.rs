//! The loops that belong to a cluster's controllers rather than to its API server: garbage collection, emptying namespaces,
//! expiring events, and aggregating cluster roles.

mod events;
mod gc;
mod namespaces;
mod roles;

use futures::future::OptionFuture;
use tokio_util::sync::CancellationToken;

use crate::ApiServer;

/// Selects the loops to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each loop runs or not, whatever the others do")]
pub struct Loops {
    /// Delete dependents of deleted owners, and finish foreground and orphan deletions.
    pub garbage: bool,
    /// Empty the namespaces that are being deleted, then remove them.
    pub namespaces: bool,
    /// Drop events an hour after they were last seen.
    pub events: bool,
    /// Fill aggregated cluster roles with the rules of the roles that they select.
    pub roles: bool,
}

impl Default for Loops {
    fn default() -> Self {
        Self { garbage: true, namespaces: true, events: true, roles: true }
    }
}

// === impl ApiServer ===

impl ApiServer {
    /// Runs the selected loops until `shutdown`. Without `events`, events accumulate.
    pub async fn run_loops(&self, loops: Loops, shutdown: CancellationToken) {
        let (state, shutdown) = (&self.state, &shutdown);
        tokio::join!(
            OptionFuture::from(loops.garbage.then(|| gc::run(state, shutdown))),
            OptionFuture::from(loops.namespaces.then(|| namespaces::run(state, shutdown))),
            OptionFuture::from(loops.events.then(|| events::run(state, shutdown))),
            OptionFuture::from(loops.roles.then(|| roles::run(state, shutdown))),
        );
    }
}
