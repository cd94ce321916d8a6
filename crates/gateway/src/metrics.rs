//! What the gateway counts, and the page that Prometheus reads.

use http::StatusCode;
use longboat_metrics::{Decimal, labels, metrics};
use prometheus_client::{
    encoding::text::encode,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tokio::time::Instant;

use crate::series::Series;

metrics! {
    /// The metrics of a process. Clones share the same values.
    #[derive(Debug, Clone)]
    pub(crate) struct Metrics {
        requests: Family<Code, Counter> => "longboat_gateway_requests", "Answered requests by status code";
        seconds: Histogram = Histogram::new(exponential_buckets(0.001, 4.0, 9))
            => "longboat_gateway_response_seconds", "Time until the head of a response was sent";
        running: Gauge
            => "longboat_gateway_requests_running", "Requests whose response was not sent whole";
        connections: Gauge => "longboat_gateway_connections", "Open connections of clients";
        tables: Counter => "longboat_gateway_tables", "Routing tables computed since the start";
        // In seconds since 1970.
        updated: Decimal
            => "longboat_gateway_table_timestamp_seconds", "When the routing table was computed";
    }
}

labels! {
    struct Code { code: u16 }
}

/// Something that is counted as long as it exists.
#[derive(Debug)]
pub(crate) struct RunningGuard(Gauge);

// === impl Metrics ===

impl Metrics {
    /// Counts a connection until the result is dropped.
    pub(crate) fn connection(&self) -> RunningGuard {
        RunningGuard::new(&self.connections)
    }

    /// Counts a request until the result is dropped.
    pub(crate) fn request(&self) -> RunningGuard {
        RunningGuard::new(&self.running)
    }

    /// Counts the head of a response.
    pub(crate) fn response(&self, status: StatusCode, received: Instant) {
        self.requests.get_or_create(&Code { code: status.as_u16() }).inc();
        self.seconds.observe(received.elapsed().as_secs_f64());
    }

    /// Counts a new table.
    pub(crate) fn table(&self) {
        self.tables.inc();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        self.updated.set(now.unwrap_or_default().as_secs_f64());
    }

    /// The page, with series whose values are kept elsewhere.
    pub(crate) fn page(&self, series: Series) -> String {
        let mut all = Registry::default();
        all.register_collector(Box::new(series));
        self.add_to(&mut all);
        let mut page = String::new();
        // Writing into a string does not fail.
        let _ = encode(&mut page, &all);
        page
    }
}

// === impl RunningGuard ===

impl RunningGuard {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        keys::{KeyLimits, KeyReport, KeyUsage},
        series::QueueSample,
    };

    /// The page of the book that lists all series.
    const DOCUMENTED: &str = include_str!("../../../docs/reference/metrics.md");

    #[test]
    fn what_is_counted_is_on_the_page_and_every_series_is_documented() {
        let metrics = Metrics::create();
        let (connection, request) = (metrics.connection(), metrics.request());
        metrics.response(StatusCode::NOT_FOUND, Instant::now());
        metrics.table();
        drop(request);
        let key = KeyReport {
            namespace: "ns".into(),
            name: "team".into(),
            problem: None,
            models: Vec::new(),
            limits: KeyLimits::default(),
            usage: KeyUsage::default(),
        };
        let invalid = KeyReport { problem: Some("no key".into()), ..key.clone() };
        let name = "llm_d_epp_flow_control_queue_size";
        let queue = vec![QueueSample { name, labels: vec![("service", "s".into())], value: 1 }];
        let page = metrics.page(Series { queue, keys: vec![key, invalid], unauthorized: 2 });
        for line in [
            "longboat_gateway_requests_total{code=\"404\"} 1",
            "longboat_gateway_requests_running 0",
            "longboat_gateway_connections 1",
            "longboat_gateway_tables_total 1",
            "longboat_gateway_unauthorized_requests_total 2",
            "longboat_gateway_api_key_invalid{namespace=\"ns\",api_key=\"team\"} 1",
            "llm_d_epp_flow_control_queue_size{service=\"s\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in {page}");
        }
        for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap();
            let total = if kind == "counter" { "_total" } else { "" };
            assert!(DOCUMENTED.contains(&format!("| `{name}{total}` | {kind} |")), "{name}");
        }
        drop(connection);
    }
}
