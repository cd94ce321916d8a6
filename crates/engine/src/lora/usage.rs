//! Counts the adapters of running and waiting sequences.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use super::adapter::Adapter;

/// The numbers of waiting and of running sequences for each adapter.
#[derive(Default)]
pub(crate) struct Usage(Mutex<BTreeMap<String, [usize; 2]>>);

/// An adapter that a sequence uses.
pub(crate) struct AdapterLease {
    pub(crate) adapter: Arc<Adapter>,
    is_running: bool,
    usage: Arc<Usage>,
}

// === impl Usage ===

impl Usage {
    /// Counts an adapter for a waiting sequence.
    pub(crate) fn lease(self: &Arc<Self>, adapter: Arc<Adapter>) -> AdapterLease {
        self.0.lock().entry(adapter.name.clone()).or_default()[0] += 1;
        AdapterLease { adapter, is_running: false, usage: Arc::clone(self) }
    }

    /// Returns the comma-separated names of the running and of the waiting adapters.
    pub(crate) fn names(&self) -> [String; 2] {
        let usage = self.0.lock();
        [1, 0].map(|state| {
            let names = usage.iter().filter(|(_, counts)| counts[state] > 0).map(|(name, _)| name.as_str());
            names.collect::<Vec<_>>().join(",")
        })
    }
}

// === impl AdapterLease ===

impl AdapterLease {
    /// Records whether the sequence runs.
    pub(crate) fn set_running(&mut self, running: bool) {
        if let Some(counts) = self.usage.0.lock().get_mut(&self.adapter.name) {
            counts[usize::from(self.is_running)] -= 1;
            counts[usize::from(running)] += 1;
        }
        self.is_running = running;
    }
}

impl Drop for AdapterLease {
    fn drop(&mut self) {
        let mut usage = self.usage.0.lock();
        if let Some(counts) = usage.get_mut(&self.adapter.name) {
            counts[usize::from(self.is_running)] -= 1;
            if *counts == [0, 0] {
                usage.remove(&self.adapter.name);
            }
        }
    }
}
