//! The times between the chunks of streams.

use std::time::Duration;

use longboat_metrics::{Buckets, Histograms, metrics};
use prometheus_client::metrics::{family::Family, histogram::Histogram};
use tokio::time::Instant;

use super::{buckets::STREAMED_TOKEN, labels::RequestLabels};

metrics! {
    /// The series.
    pub(crate) struct StreamMetrics {
        gaps: Histograms<RequestLabels> = Family::new_with_constructor(Buckets(STREAMED_TOKEN))
            => "llm_d_epp_request_streaming_itl_seconds", "Time between the chunks of a stream";
    }
}

/// Measures the times between the chunks of one response.
#[derive(Debug)]
pub(crate) struct InterChunkTimer {
    /// The histogram for the response's labels. Looking it up for each chunk would cost more than the observation.
    histogram: Histogram,
    last: Instant,
}

impl StreamMetrics {
    /// Records the first chunk of a stream.
    pub(crate) fn began(&self, labels: &RequestLabels) -> InterChunkTimer {
        InterChunkTimer { histogram: self.gaps.get_or_create(labels).clone(), last: Instant::now() }
    }
}

impl InterChunkTimer {
    /// Records a further chunk.
    pub(crate) fn next(&mut self) {
        let now = Instant::now();
        let gap: Duration = now - self.last;
        self.last = now;
        self.histogram.observe(gap.as_secs_f64());
    }
}
