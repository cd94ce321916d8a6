//! What the indexes of precise prefixes did.

use std::sync::atomic::Ordering::Relaxed;

use longboat_metrics::{Buckets, metrics};
use longboat_scheduler::IndexCounts;
use prometheus_client::metrics::{counter::Counter, family::MetricConstructor as _, histogram::Histogram};

use super::{buckets::LOOKUP, kv_events::KvEventMetrics};

metrics! {
    /// These series. `events` are the events that endpoints send.
    #[derive(Debug)]
    pub(crate) struct KvCacheMetrics(pub(crate) events: KvEventMetrics) {
        admissions: Counter
            => "llm_d_epp_kv_cache_index_admissions" | "kvcache_index_admissions",
            "Blocks that endpoints reported to have cached";
        evictions: Counter
            => "llm_d_epp_kv_cache_index_evictions" | "kvcache_index_evictions",
            "Blocks removed from the index, because an endpoint no longer has them or because the index was full";
        lookups: Counter
            => "llm_d_epp_kv_cache_index_lookup_requests" | "kvcache_index_lookup_requests",
            "Requests whose blocks were looked up";
        // The reference counts the same under two names.
        hits: Counter
            => "llm_d_epp_kv_cache_index_lookup_hits" | "kvcache_index_lookup_hits"
            | "llm_d_epp_kv_cache_index_max_pod_hit_count" | "kvcache_index_max_pod_hit_count",
            "Contiguous blocks from the beginning of a prompt that the best endpoint had cached";
        applied: Counter
            => "llm_d_epp_kv_cache_events_dedup_removed_hashes_forwarded"
            | "kvcache_kvevents_dedup_removed_hashes_forwarded",
            "Removed blocks that the index no longer has";
        outstanding: Counter
            => "llm_d_epp_kv_cache_events_dedup_removed_hashes_suppressed"
            | "kvcache_kvevents_dedup_removed_hashes_suppressed",
            "Removed blocks that stay in the index, because they were stored more often than removed";
        /// The time of a lookup. The stopwatch of the producers writes it.
        pub(super) lookup_times: Histogram = Buckets(LOOKUP).new_metric()
            => "llm_d_epp_kv_cache_index_lookup_latency_seconds" | "kvcache_index_lookup_latency_seconds",
            "Time to look up a prompt's blocks";
    }
}

impl KvCacheMetrics {
    /// What all indexes did so far. Only these numbers are ever written, so they never go back.
    pub(crate) fn set(&self, counts: impl Iterator<Item = IndexCounts>) {
        let mut sum = IndexCounts::default();
        for counts in counts {
            sum.admissions += counts.admissions;
            sum.evictions += counts.evictions;
            sum.lookups += counts.lookups;
            sum.hits += counts.hits;
            sum.removals.applied += counts.removals.applied;
            sum.removals.outstanding += counts.removals.outstanding;
        }
        for (counter, count) in [
            (&self.admissions, sum.admissions),
            (&self.evictions, sum.evictions),
            (&self.lookups, sum.lookups),
            (&self.hits, sum.hits),
            (&self.applied, sum.removals.applied),
            (&self.outstanding, sum.removals.outstanding),
        ] {
            counter.inner().fetch_max(count, Relaxed);
        }
    }
}
