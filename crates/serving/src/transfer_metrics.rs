//! vLLM's metrics of KV cache transfers between engines, with vLLM's names.

use std::time::Duration;

use longboat_metrics::{Buckets, metrics};
use prometheus_client::metrics::{counter::Counter, family::MetricConstructor as _, histogram::Histogram};

// vLLM's buckets.
const TRANSFER: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0];
const POST: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0];
const DESCRIPTORS: &[f64] = &[
    10.0, 20.0, 30.0, 50.0, 75.0, 100.0, 200.0, 400.0, 1000.0, 2000.0, 4000.0, 10_000.0, 20_000.0, 50_000.0,
];

metrics! {
    /// The metrics of vLLM's NIXL connector.
    pub struct Transfers {
        time: Histogram = Buckets(TRANSFER).new_metric()
            => "vllm:nixl_xfer_time" in Seconds, "Histogram of transfer duration for NIXL KV Cache transfers";
        post_time: Histogram = Buckets(POST).new_metric()
            => "vllm:nixl_post_time" in Seconds, "Histogram of transfer post time for NIXL KV Cache transfers";
        bytes: Histogram = Histogram::new((11..34).step_by(2).map(|power| 2_f64.powi(power)))
            => "vllm:nixl_bytes_transferred", "Histogram of bytes transferred per NIXL KV Cache transfers";
        descriptors: Histogram = Buckets(DESCRIPTORS).new_metric()
            => "vllm:nixl_num_descriptors", "Histogram of number of descriptors per NIXL  KV Cache transfers";
        /// Caches that did not arrive, or of which the other engine was not notified.
        pub failed: Counter => "vllm:nixl_num_failed_transfers",
            "Number of failed NIXL KV Cache transfers, including handshake and notification failures. NOTE: KV expiry \
             is tracked separately in vllm:nixl_num_kv_expired_reqs";
        /// Caches that arrived, but the notification of the other engine failed. vLLM counts them as failed, too.
        pub failed_notifications: Counter
            => "vllm:nixl_num_failed_notifications",
            "Number of failed NIXL KV Cache notifications. Retained for compatibility; these failures are also \
             included in vllm:nixl_num_failed_transfers";
        /// Caches whose leases expired before another engine had fetched them.
        pub expired: Counter
            => "vllm:nixl_num_kv_expired_reqs",
            "Number of requests that had their KV expire. NOTE: This metric is tracked on the P instance";
    }
}

// === impl Transfers ===

impl Transfers {
    /// Counts a cache that has arrived: the time of the handshake, the time of the transfer, and the size.
    #[expect(clippy::cast_precision_loss, reason = "sizes for a graph")]
    pub fn received(&self, handshake: Duration, transfer: Duration, bytes: usize, blocks: usize) {
        self.post_time.observe(handshake.as_secs_f64());
        self.time.observe(transfer.as_secs_f64());
        self.bytes.observe(bytes as f64);
        self.descriptors.observe(blocks as f64);
    }
}
