//! Series that no pod has: how many requests wait for a workload without replicas.

use std::{fmt, sync::Arc};

use super::{Sample, Target};

type Read = dyn Fn(&str, &str, &str) -> Vec<Sample> + Send + Sync;

/// Reads how many requests wait for a workload. The gateway knows it; a node without one has no such series.
#[derive(Clone)]
pub struct QueueMetrics(Arc<Read>);

// === impl QueueMetrics ===

impl QueueMetrics {
    /// Creates a source. `read` gets kind, namespace and name of the workload.
    pub fn new(read: impl Fn(&str, &str, &str) -> Vec<Sample> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(super) fn read(&self, target: &Target) -> Vec<Sample> {
        (self.0)(&target.kind, &target.namespace, &target.name)
    }
}

impl Default for QueueMetrics {
    fn default() -> Self {
        Self::new(|_, _, _| Vec::new())
    }
}

impl fmt::Debug for QueueMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueueMetrics")
    }
}
