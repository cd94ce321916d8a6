//! What the indexes of precise prefixes did.

use std::sync::atomic::Ordering::Relaxed;

use longboat_scheduler::IndexCounts;
use prometheus_client::{metrics::counter::Counter, registry::Registry};

/// These series.
#[derive(Debug, Default)]
pub(crate) struct KvCacheMetrics {
    admissions: Counter,
    evictions: Counter,
    lookups: Counter,
    hits: Counter,
}

impl KvCacheMetrics {
    pub(super) fn new(r: &mut Registry) -> Self {
        let metrics = Self::default();
        let series = [
            ("admissions", "Blocks that endpoints reported to have cached", &metrics.admissions),
            (
                "evictions",
                "Blocks removed from the index, because an endpoint no longer has them or because the \
                 index was full",
                &metrics.evictions,
            ),
            ("lookup_requests", "Requests whose blocks were looked up", &metrics.lookups),
            (
                "lookup_hits",
                "Contiguous blocks from the beginning of a prompt that the best endpoint had \
                             cached",
                &metrics.hits,
            ),
            // The reference counts the same under two names.
            ("max_pod_hit_count", "Blocks of a prompt that the best endpoint had cached", &metrics.hits),
        ];
        for (name, help, counter) in series {
            for prefix in ["llm_d_epp_kv_cache_index_", "kvcache_index_"] {
                r.register(format!("{prefix}{name}"), help, counter.clone());
            }
        }
        metrics
    }

    /// What all indexes did so far. Only these numbers are ever written, so they never go back.
    pub(crate) fn set(&self, counts: impl Iterator<Item = IndexCounts>) {
        let mut sum = IndexCounts::default();
        for counts in counts {
            sum.admissions += counts.admissions;
            sum.evictions += counts.evictions;
            sum.lookups += counts.lookups;
            sum.hits += counts.hits;
        }
        for (counter, count) in [
            (&self.admissions, sum.admissions),
            (&self.evictions, sum.evictions),
            (&self.lookups, sum.lookups),
            (&self.hits, sum.hits),
        ] {
            counter.inner().fetch_max(count, Relaxed);
        }
    }
}
