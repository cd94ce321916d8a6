//! What controllers of a cluster do and a plain API server does not: garbage collection, emptying namespaces,
//! gathering the rules of cluster roles.

mod events;
mod gc;
mod namespaces;
mod roles;

use tokio_util::sync::CancellationToken;

use crate::ApiServer;

/// Which loops run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each loop runs or not, whatever the others do")]
pub struct Loops {
    /// Delete dependents of deleted owners; finish foreground and orphan deletions.
    pub garbage: bool,
    /// Empty namespaces that are being deleted, then let them go.
    pub namespaces: bool,
    /// Drop events an hour after they were last seen.
    pub events: bool,
    /// Fill cluster roles with the rules of those that they aggregate.
    pub roles: bool,
}

impl Default for Loops {
    fn default() -> Self {
        Self { garbage: true, namespaces: true, events: true, roles: true }
    }
}

// === impl ApiServer ===

impl ApiServer {
    /// Runs the loops until `shutdown`. Without the last one events pile up.
    pub async fn run_loops(&self, loops: Loops, shutdown: CancellationToken) {
        let garbage = async {
            if loops.garbage {
                gc::run(&self.state, &shutdown).await;
            }
        };
        let namespaces = async {
            if loops.namespaces {
                namespaces::run(&self.state, &shutdown).await;
            }
        };
        let events = async {
            if loops.events {
                events::run(&self.state, &shutdown).await;
            }
        };
        let roles = async {
            if loops.roles {
                roles::run(&self.state, &shutdown).await;
            }
        };
        tokio::join!(garbage, namespaces, events, roles);
    }
}
