//! Which adapters run, and which ones wait.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use super::Adapter;

/// How many sequences of each adapter wait, and how many run.
#[derive(Default)]
pub(crate) struct Usage(Mutex<BTreeMap<String, [usize; 2]>>);

/// An adapter in use by one sequence.
pub(crate) struct Used {
    pub(crate) adapter: Arc<Adapter>,
    runs: bool,
    usage: Arc<Usage>,
}

// === impl Usage ===

impl Usage {
    /// Uses an adapter for a sequence that waits.
    pub(crate) fn wait(self: &Arc<Self>, adapter: Arc<Adapter>) -> Used {
        self.0.lock().entry(adapter.name.clone()).or_default()[0] += 1;
        Used { adapter, runs: false, usage: Arc::clone(self) }
    }

    /// The names of those that run, and of those that wait, with commas between them.
    pub(crate) fn names(&self) -> [String; 2] {
        let usage = self.0.lock();
        [1, 0].map(|state| {
            let names = usage.iter().filter(|(_, counts)| counts[state] > 0).map(|(name, _)| name.as_str());
            names.collect::<Vec<_>>().join(",")
        })
    }
}

// === impl Used ===

impl Used {
    /// Notes whether the sequence runs.
    pub(crate) fn runs(&mut self, runs: bool) {
        if let Some(counts) = self.usage.0.lock().get_mut(&self.adapter.name) {
            counts[usize::from(self.runs)] -= 1;
            counts[usize::from(runs)] += 1;
        }
        self.runs = runs;
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let mut usage = self.usage.0.lock();
        if let Some(counts) = usage.get_mut(&self.adapter.name) {
            counts[usize::from(self.runs)] -= 1;
            if *counts == [0, 0] {
                usage.remove(&self.adapter.name);
            }
        }
    }
}
