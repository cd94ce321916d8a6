//! The saturation of the pool, from its members and from the requests in flight.

use std::{collections::BTreeMap, ops::Deref, sync::Arc, time::Duration};

use longboat_scheduler::{Metrics, Slot, State, flow::PoolMember};
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::pool::{Member, Pool};

impl PoolMember for Member {
    fn slot(&self) -> Slot {
        self.endpoint.slot
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.endpoint.labels
    }

    fn metrics(&self, stale_after_ms: u64) -> Option<Arc<Metrics>> {
        let snapshot = self.snapshot(Instant::now(), Some(Duration::from_millis(stale_after_ms)));
        snapshot.fresh.then_some(snapshot.metrics)
    }
}

/// Measures the pool.
pub(crate) fn of_pool<T>(
    pool: &Pool,
    state: &RwLock<State>,
    measure: impl FnOnce(&State, &[&Member]) -> T,
) -> T {
    let members = pool.members();
    let members: Vec<&Member> = members.iter().map(Deref::deref).collect();
    // The lock stays while the admitted ones are counted: a request that becomes in flight in between would count in neither,
    // and one too many would go on (`tests/interleavings.rs`).
    measure(&state.read(), &members)
}
