//! The loops that belong to a cluster's controllers rather than to its API server: garbage collection, emptying namespaces,
//! expiring events, and aggregating cluster roles.

mod backoff;
mod events;
mod gc;
mod namespaces;
mod roles;

use tokio_util::sync::CancellationToken;

use crate::ApiServer;

// === impl ApiServer ===

impl ApiServer {
    /// Runs the loops until `shutdown`. Without them, dependents of deleted owners, namespaces that are being deleted, and events
    /// stay for ever, and aggregated cluster roles stay empty.
    pub async fn run_loops(&self, shutdown: CancellationToken) {
        let (state, shutdown) = (&self.state, &shutdown);
        tokio::join!(
            gc::run(state, shutdown),
            namespaces::run(state, shutdown),
            events::run(state, shutdown),
            roles::run(state, shutdown),
        );
    }
}
