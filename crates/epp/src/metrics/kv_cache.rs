//! What the indexes of precise prefixes did.

use std::sync::atomic::Ordering::Relaxed;

use longboat_scheduler::IndexCounts;
use prometheus_client::{
    metrics::{counter::Counter, family::MetricConstructor as _, histogram::Histogram},
    registry::Registry,
};

use super::{
    buckets::{Buckets, LOOKUP},
    kv_events::KvEventMetrics,
};

/// These series.
#[derive(Debug)]
pub(crate) struct KvCacheMetrics {
    admissions: Counter,
    evictions: Counter,
    lookups: Counter,
    hits: Counter,
    /// Removals that were applied, and removals of blocks that stay.
    applied: Counter,
    outstanding: Counter,
    /// The time of a lookup. The stopwatch of the producers writes it.
    pub(super) lookup_times: Histogram,
    /// The events that endpoints send.
    pub(crate) events: KvEventMetrics,
}

impl KvCacheMetrics {
    pub(super) fn new(r: &mut Registry) -> Self {
        let metrics = Self {
            admissions: Counter::default(),
            evictions: Counter::default(),
            lookups: Counter::default(),
            hits: Counter::default(),
            applied: Counter::default(),
            outstanding: Counter::default(),
            lookup_times: Buckets(LOOKUP).new_metric(),
            events: KvEventMetrics::new(),
        };
        let series = [
            ("index_admissions", "Blocks that endpoints reported to have cached", &metrics.admissions),
            (
                "index_evictions",
                "Blocks removed from the index, because an endpoint no longer has them or because the \
                 index was full",
                &metrics.evictions,
            ),
            ("index_lookup_requests", "Requests whose blocks were looked up", &metrics.lookups),
            (
                "index_lookup_hits",
                "Contiguous blocks from the beginning of a prompt that the best endpoint had cached",
                &metrics.hits,
            ),
            // The reference counts the same under two names.
            (
                "index_max_pod_hit_count",
                "Blocks of a prompt that the best endpoint had cached",
                &metrics.hits,
            ),
            (
                "events_dedup_removed_hashes_forwarded",
                "Removed blocks that the index no longer has",
                &metrics.applied,
            ),
            (
                "events_dedup_removed_hashes_suppressed",
                "Removed blocks that stay in the index, because they were stored more often than removed",
                &metrics.outstanding,
            ),
        ];
        for (name, help, counter) in series {
            r.register(format!("llm_d_epp_kv_cache_{name}"), help, counter.clone());
            r.register(format!("kvcache_{}", name.replace("events_", "kvevents_")), help, counter.clone());
        }
        for prefix in ["llm_d_epp_kv_cache_index_", "kvcache_index_"] {
            let help = "Time to look up a prompt's blocks";
            r.register(format!("{prefix}lookup_latency_seconds"), help, metrics.lookup_times.clone());
        }
        metrics.events.register(r);
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
