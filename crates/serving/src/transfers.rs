//! vLLM's metrics of KV cache transfers between engines, with vLLM's names.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, histogram::Histogram},
    registry::{Registry, Unit},
};

/// The metrics of vLLM's NIXL connector.
pub struct Transfers {
    time: Histogram,
    post_time: Histogram,
    bytes: Histogram,
    descriptors: Histogram,
    /// Caches that did not arrive, or of which the other engine was not notified.
    pub failed: Counter,
    /// Caches that arrived, but the notification of the other engine failed. vLLM counts them as failed, too.
    pub failed_notifications: Counter,
    /// Caches that were kept for another engine until they expired.
    pub expired: Counter,
}

// === impl Transfers ===

impl Transfers {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        // vLLM's buckets.
        let seconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0];
        let descriptors = [10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10_000, 20_000, 50_000];
        let transfers = Self {
            time: Histogram::new(seconds.into_iter().skip(1)),
            post_time: Histogram::new(seconds),
            bytes: Histogram::new((11..34).step_by(2).map(|power| 2_f64.powi(power))),
            descriptors: Histogram::new(descriptors.map(f64::from)),
            failed: Counter::default(),
            failed_notifications: Counter::default(),
            expired: Counter::default(),
        };
        for (name, help, histogram) in [
            ("vllm:nixl_xfer_time", "Duration of the transfer of a KV cache", &transfers.time),
            ("vllm:nixl_post_time", "Time for two engines to agree on a transfer", &transfers.post_time),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        registry.register(
            "vllm:nixl_bytes_transferred",
            "Bytes received in a transfer",
            transfers.bytes.clone(),
        );
        registry.register(
            "vllm:nixl_num_descriptors",
            "Blocks received in a transfer",
            transfers.descriptors.clone(),
        );
        for (name, help, counter) in [
            ("vllm:nixl_num_failed_transfers", "Transfers that failed", &transfers.failed),
            (
                "vllm:nixl_num_failed_notifications",
                "Completed transfers whose completion could not be reported to the other engine",
                &transfers.failed_notifications,
            ),
            (
                "vllm:nixl_num_kv_expired_reqs",
                "KV caches that were kept for another engine and dropped before that engine fetched them",
                &transfers.expired,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        transfers
    }

    /// Counts a cache that has arrived: the time of the handshake, the time of the transfer, and the size.
    #[expect(clippy::cast_precision_loss, reason = "sizes for a graph")]
    pub fn moved(&self, agreed: Duration, moved: Duration, bytes: usize, blocks: usize) {
        self.post_time.observe(agreed.as_secs_f64());
        self.time.observe(moved.as_secs_f64());
        self.bytes.observe(bytes as f64);
        self.descriptors.observe(blocks as f64);
    }
}
