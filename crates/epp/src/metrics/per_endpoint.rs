//! Series of single endpoints. They go when their endpoint has left the pool.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::Hash,
    sync::Arc,
};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder},
    metrics::{MetricType, counter::Counter, family::Family},
    registry::Metric,
};

/// A metric of endpoints.
#[derive(Debug, Clone)]
pub(super) struct PerEndpoint<L, M> {
    family: Family<L, M>,
    /// The labels of each endpoint's series, by its full name.
    known: Arc<Mutex<HashMap<String, HashSet<L>>>>,
}

impl<L, M> PerEndpoint<L, M>
where
    L: EncodeLabelSet + Clone + Hash + Eq + std::fmt::Debug + Send + Sync + 'static,
    M: Clone + Default,
    Family<L, M>: Metric,
{
    pub(super) fn new() -> Self {
        Self { family: Family::default(), known: Arc::default() }
    }

    /// Changes the metric of an endpoint.
    fn change(&self, endpoint: &str, labels: &L, change: impl FnOnce(&M)) {
        // The lock stays until the change is made, so that no series comes back after its endpoint was forgotten.
        let mut known = self.known.lock();
        let of_endpoint = match known.get_mut(endpoint) {
            Some(of_endpoint) => of_endpoint,
            None => known.entry(endpoint.to_owned()).or_default(),
        };
        if !of_endpoint.contains(labels) {
            of_endpoint.insert(labels.clone());
        }
        change(&self.family.get_or_create(labels));
    }

    /// Removes the series of all endpoints but these.
    pub(super) fn keep(&self, endpoints: &BTreeSet<String>) {
        self.known.lock().retain(|endpoint, of_endpoint| {
            let stays = endpoints.contains(endpoint);
            if !stays {
                for labels in &*of_endpoint {
                    self.family.remove(labels);
                }
            }
            stays
        });
    }
}

impl<L> PerEndpoint<L, Counter>
where
    L: EncodeLabelSet + Clone + Hash + Eq + std::fmt::Debug + Send + Sync + 'static,
{
    /// Counts one more.
    pub(super) fn count(&self, endpoint: &str, labels: &L) {
        self.change(endpoint, labels, |counter| {
            counter.inc();
        });
    }
}

impl<L, M> EncodeMetric for PerEndpoint<L, M>
where
    Family<L, M>: EncodeMetric,
{
    fn encode(&self, encoder: MetricEncoder<'_>) -> std::fmt::Result {
        self.family.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.family.metric_type()
    }

    fn is_empty(&self) -> bool {
        self.family.is_empty()
    }
}
