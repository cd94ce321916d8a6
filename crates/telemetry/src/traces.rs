//! Traces over OTLP/gRPC. They are off unless the environment or a flag names a collector.
//!
//! Spans with the target [`SPANS`] are recorded, independent of the log filter. Ended spans wait in a queue of limited size.
//! If the collector does not keep up, spans are dropped and counted, so that nothing waits for the collector.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use opentelemetry::{
    Context, KeyValue,
    propagation::{Extractor, TextMapPropagator},
    trace::TracerProvider,
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider, Span, SpanData, SpanExporter as _, SpanProcessor},
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing_opentelemetry::OpenTelemetrySpanExt;

pub use crate::error::TracesError;
use crate::trust;

/// Target of the exported spans. They have the level TRACE, so that logs do not contain them.
pub const SPANS: &str = "longboat::span";

/// The most ended spans in the queue: about 2 MB, which a busy controller fills in some seconds.
const MAX_QUEUED_SPANS: usize = 4096;
/// The most spans in one request.
const MAX_BATCH_SPANS: usize = 512;
/// How long spans wait for others, to be sent together.
const COLLECT: Duration = Duration::from_secs(2);
/// The time limit for sending the last spans.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(3);

/// Destination of traces, from OpenTelemetry's environment variables or from flags.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Traces")]
pub struct Otlp {
    /// Collector to send traces to over OTLP/gRPC: `http://HOST:4317`, or `https://` for TLS.
    /// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_EXPORTER_OTLP_ENDPOINT have the same effect. Default: no traces.
    #[arg(long, value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// Exporter of traces: `otlp` sends them to http://localhost:4317 if no endpoint is given, `none` sends none even if an
    /// endpoint is given. OTEL_TRACES_EXPORTER has the same effect.
    #[arg(long, value_name = "otlp|none")]
    pub traces_exporter: Option<Exporter>,
}

/// How traces leave the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Exporter {
    /// Over OTLP.
    Otlp,
    /// No traces are sent.
    None,
}

/// Records spans. [`Traces::start`] starts to send them.
pub struct Traces {
    endpoint: String,
    resource: Resource,
    provider: SdkTracerProvider,
    ended: mpsc::Receiver<SpanData>,
}

/// Sends spans until [`ExportTask::end`].
#[derive(Debug)]
pub struct ExportTask {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// The numbers of sent and dropped spans in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanCounts {
    /// Spans that a collector has accepted.
    pub sent: u64,
    /// Spans for which the queue had no space, or that the collector did not accept.
    pub dropped: u64,
}

/// The address of a collector if only the exporter is named.
const USUAL_ENDPOINT: &str = "http://localhost:4317";
/// The variable with the names of exporters, separated by commas.
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";

static SENT: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Returns the numbers of spans in this process. Like logging, tracing is set up once per process.
pub fn counts() -> SpanCounts {
    SpanCounts { sent: SENT.load(Ordering::Relaxed), dropped: DROPPED.load(Ordering::Relaxed) }
}

/// Returns where this process sends traces, if no flag says it.
pub fn own_collector() -> Option<String> {
    Otlp::default().collector(variable)
}

/// Puts ended spans into the queue.
#[derive(Debug)]
struct Enqueue {
    queue: mpsc::Sender<SpanData>,
}

// === impl Otlp ===

impl Otlp {
    /// Starts recording if a collector is configured.
    pub fn traces(&self, service: &'static str) -> Option<Traces> {
        self.collector(variable).map(|endpoint| Traces::new(service, endpoint))
    }

    /// Returns where a process with these variables sends traces. Returns `None` if it sends none.
    pub fn collector(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return None;
        }
        let flag = self.otlp_endpoint.clone().filter(|endpoint| !endpoint.is_empty());
        let endpoint = flag
            .or_else(|| variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))
            .or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let exporter =
            self.traces_exporter.or_else(|| variable(EXPORTER).and_then(|names| Exporter::among(&names)));
        match exporter {
            Some(Exporter::None) => None,
            Some(Exporter::Otlp) => Some(endpoint.unwrap_or_else(|| USUAL_ENDPOINT.to_owned())),
            None => endpoint,
        }
    }
}

// === impl Exporter ===

impl Exporter {
    /// Returns the first known name of a list.
    fn among(names: &str) -> Option<Self> {
        names.split(',').find_map(|name| match name.trim() {
            "otlp" => Some(Self::Otlp),
            "none" => Some(Self::None),
            _ => None,
        })
    }
}

// === impl Traces ===

impl Traces {
    fn new(service: &'static str, endpoint: String) -> Self {
        let (queue, ended) = mpsc::channel(MAX_QUEUED_SPANS);
        let resource = resource(service);
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.clone())
            .with_span_processor(Enqueue { queue })
            .build();
        Self { endpoint, resource, provider, ended }
    }

    /// Returns the tracer that creates spans.
    pub(crate) fn tracer(&self) -> SdkTracer {
        self.provider.tracer("longboat")
    }

    /// Sends spans that end from now on, and those that have ended before. Must be called in a tokio runtime.
    ///
    /// # Errors
    ///
    /// If the collector's address is invalid.
    pub fn start(self) -> Result<ExportTask, TracesError> {
        let Self { endpoint, resource, provider, ended } = self;
        let mut builder = SpanExporter::builder().with_tonic().with_endpoint(&endpoint);
        if endpoint.starts_with("https:") {
            builder = builder.with_tls_config(trust::client(variable)?);
        }
        let mut exporter =
            builder.build().map_err(|source| TracesError::Exporter { endpoint: endpoint.clone(), source })?;
        exporter.set_resource(&resource);
        let protocol = variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(protocol) = protocol.filter(|protocol| protocol != "grpc") {
            tracing::warn!(
                protocol,
                endpoint,
                "Sending traces over gRPC; OTEL_EXPORTER_OTLP_PROTOCOL has no effect."
            );
        }
        // OpenTelemetry's specification: a value that is not known has no effect, and is logged.
        if let Some(value) = variable(EXPORTER).filter(|names| Exporter::among(names).is_none()) {
            tracing::warn!(value, "{EXPORTER} names neither otlp nor none, and has no effect.");
        }
        tracing::info!(endpoint, "Sending traces.");
        let stop = CancellationToken::new();
        let sender = Sender { exporter, ended, failing: false };
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            sender.run(stopped).await;
            // Spans are recorded as long as they can be sent.
            drop(provider);
        });
        Ok(ExportTask { stop, task })
    }
}

/// The headers with which a request says which trace it belongs to (W3C Trace Context).
#[derive(Debug, Clone, Copy)]
pub struct TraceHeaders<'a> {
    /// `traceparent`: the trace, the caller's span, and whether the trace is recorded.
    pub parent: Option<&'a str>,
    /// `tracestate`: what the tracing systems on the way have added.
    pub state: Option<&'a str>,
}

impl Extractor for TraceHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.parent,
            "tracestate" => self.state,
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// Makes a span a part of the trace that a request belongs to. Without such headers, the span begins a trace.
pub fn join_trace(span: &tracing::Span, headers: TraceHeaders<'_>) {
    if !span.is_disabled() {
        // Fails only where spans are not recorded.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&headers));
    }
}

/// Returns a variable of the environment. An empty variable counts as unset.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the attributes of this process from the environment, with the default name `service`.
fn resource(service: &'static str) -> Resource {
    let found = Resource::builder().build();
    let named =
        found.get(&"service.name".into()).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    if named {
        return found;
    }
    Resource::builder().with_attribute(KeyValue::new("service.name", service)).build()
}

// === impl ExportTask ===

impl ExportTask {
    /// Sends the remaining spans, for a few seconds at most, and logs how many were dropped.
    pub async fn end(self) {
        let Self { stop, mut task } = self;
        stop.cancel();
        if tokio::time::timeout(EXPORT_TIMEOUT, &mut task).await.is_err() {
            // The exporter may wait for a collector that does not answer.
            task.abort();
            tracing::warn!("Could not send the last spans within {EXPORT_TIMEOUT:?}.");
        }
        let SpanCounts { sent, dropped } = counts();
        if dropped > 0 {
            tracing::warn!(dropped, sent, "Dropped spans.");
        }
    }
}

// === impl Enqueue ===

impl SpanProcessor for Enqueue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        // Never waits: it runs where a span ends, such as in a reconcile.
        if span.span_context.is_sampled() && self.queue.try_send(span).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

struct Sender {
    exporter: SpanExporter,
    ended: mpsc::Receiver<SpanData>,
    /// Whether the last request failed. A failure is logged once, not with each batch.
    failing: bool,
}

// === impl Sender ===

impl Sender {
    async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(MAX_BATCH_SPANS);
        loop {
            let Some(first) = stop.run_until_cancelled(self.ended.recv()).await else { break };
            let Some(first) = first else { return };
            batch.push(first);
            // From the first span on, so that no span waits longer than this.
            let collected = tokio::time::sleep(COLLECT);
            let mut collected = std::pin::pin!(collected);
            while batch.len() < MAX_BATCH_SPANS {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => break,
                    () = &mut collected => break,
                    next = self.ended.recv() => match next {
                        Some(next) => batch.push(next),
                        None => break,
                    },
                }
            }
            self.send(&mut batch).await;
        }
        // Spans that end from now on count as dropped.
        self.ended.close();
        while self.ended.recv_many(&mut batch, MAX_BATCH_SPANS).await > 0 {
            self.send(&mut batch).await;
        }
    }

    async fn send(&mut self, batch: &mut Vec<SpanData>) {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let sent = self.exporter.export(std::mem::replace(batch, Vec::with_capacity(MAX_BATCH_SPANS))).await;
        match sent {
            Ok(()) => {
                SENT.fetch_add(count, Ordering::Relaxed);
                if std::mem::take(&mut self.failing) {
                    tracing::info!("The collector accepts spans again.");
                }
            }
            Err(error) => {
                DROPPED.fetch_add(count, Ordering::Relaxed);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(
                        %error,
                        "The collector does not accept spans; dropping spans until it does."
                    );
                }
            }
        }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
