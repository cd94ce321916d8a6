//! Measures the ext_proc streams themselves, not the requests in them.

use longboat_metrics::{Buckets, labels, metrics};
use prometheus_client::metrics::{
    counter::Counter,
    family::{Family, MetricConstructor as _},
    gauge::Gauge,
    histogram::Histogram,
};
use tokio::time::Instant;

use super::buckets::EXTPROC_STREAM;

metrics! {
    /// The series.
    #[derive(Clone)]
    pub(crate) struct ExtProcMetrics {
        open: Gauge => "llm_d_epp_extproc_streams_inflight", "Open ext_proc streams";
        durations: Histogram = Buckets(EXTPROC_STREAM).new_metric()
            => "llm_d_epp_extproc_stream_duration_seconds", "Time from the beginning of an ext_proc stream to its end";
        // The encoder adds `_total`.
        ended: Family<CodeLabel, Counter>
            => "llm_d_epp_extproc_streams", "Ext_proc streams that ended, by gRPC status";
    }
}

labels! {
    struct CodeLabel { code: &'static str }
}

/// Counts a stream as open until it is dropped.
pub(crate) struct OpenStream {
    metrics: ExtProcMetrics,
    since: Instant,
    /// The stream's gRPC status. `None` if the proxy gave the stream up.
    status: Option<u8>,
}

// === impl ExtProcMetrics ===

impl ExtProcMetrics {
    /// Counts a stream that a proxy opened.
    pub(crate) fn opened(&self) -> OpenStream {
        self.open.inc();
        OpenStream { metrics: self.clone(), since: Instant::now(), status: None }
    }
}

// === impl OpenStream ===

impl OpenStream {
    /// Records the gRPC status with which the stream ends.
    pub(crate) fn ended(&mut self, status: u8) {
        self.status = Some(status);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let code = self.status.map_or("Canceled", name);
        self.metrics.open.dec();
        self.metrics.durations.observe(self.since.elapsed().as_secs_f64());
        self.metrics.ended.get_or_create(&CodeLabel { code }).inc();
    }
}

/// Returns the status in the spelling of grpc-go, which dashboards expect. Only the statuses that the picker's streams can end
/// with have a name here.
fn name(status: u8) -> &'static str {
    match status {
        0 => "OK",
        1 => "Canceled",
        11 => "OutOfRange",
        14 => "Unavailable",
        _ => "Unknown",
    }
}
