//! The saturation of the pool, from its members and from the requests in flight.

use std::{collections::BTreeMap, ops::Deref, sync::Arc, time::Duration};

use longboat_scheduler::{
    Metrics, Slot, State,
    flow::{Detector, PoolMember, Reading},
};
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::pool::{Member, Pool};

/// The number of requests that go to an endpoint which is not chosen yet.
pub(crate) type AdmittedCount<'a> = &'a dyn Fn() -> u64;

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

/// Returns the saturation of the pool.
pub(crate) fn of_pool(
    pool: &Pool,
    state: &RwLock<State>,
    detector: &Detector,
    admitted: AdmittedCount<'_>,
) -> f64 {
    let members = pool.members();
    // The lock stays while the admitted ones are counted: a request that becomes in flight in between would count in neither,
    // and one too many would go on (`tests/interleavings.rs`).
    let state = state.read();
    detector.saturation(&state, members.iter().map(Deref::deref), admitted)
}

/// Returns what each of several detectors measures. Empty if there is only one.
pub(crate) fn readings<'d>(
    pool: &Pool,
    state: &RwLock<State>,
    detector: &'d Detector,
    admitted: AdmittedCount<'_>,
) -> Vec<Reading<'d>> {
    let members = pool.members();
    let state = state.read();
    detector.readings(&state, members.iter().map(Deref::deref), admitted)
}
