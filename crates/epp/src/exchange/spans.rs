//! Trace spans of a request, with the names and attributes of llm-d's picker. If traces are not recorded, a span costs only the check
//! of a flag.

use longboat_extproc::Headers;
use longboat_telemetry::traces::{SPANS, TraceHeaders, join_trace};
use tracing::{Span, field::Empty};

/// The spans of one request. Both are disabled before its headers have arrived.
pub(super) struct RequestSpans {
    /// From the request's headers to the end of the response.
    request: Span,
    /// From the complete body to the decision. Includes the time in the queue.
    orchestration: Span,
}

// === impl RequestSpans ===

impl RequestSpans {
    pub(super) const fn none() -> Self {
        Self { request: Span::none(), orchestration: Span::none() }
    }

    /// A request has begun. Its span belongs to the client's trace, if the headers name one.
    pub(super) fn begin(headers: &Headers) -> Self {
        let request = tracing::trace_span!(
            target: SPANS, parent: None, "gateway.request", otel.kind = "server",
            http.response.status_code = Empty, otel.status_code = Empty, otel.status_description = Empty,
        );
        join_trace(
            &request,
            TraceHeaders { parent: headers.get("traceparent"), state: headers.get("tracestate") },
        );
        Self { request, orchestration: Span::none() }
    }

    /// The body is complete.
    pub(super) fn orchestrate(&mut self) {
        self.orchestration = tracing::trace_span!(
            target: SPANS, parent: &self.request, "gateway.request_orchestration", otel.kind = "server",
            target_model = Empty, request_prio = Empty, destination = Empty,
            otel.status_code = Empty, otel.status_description = Empty,
        );
    }

    /// The destination is known.
    pub(super) fn decide(&mut self, model: &str, priority: i32, destination: &[String]) {
        let span = std::mem::replace(&mut self.orchestration, Span::none());
        if !span.is_disabled() {
            span.record("target_model", model);
            span.record("request_prio", priority);
            span.record("destination", destination.join(","));
        }
    }

    /// The picker has answered the client with an error.
    pub(super) fn refuse(&mut self, status: u16, message: &str) {
        let orchestration = std::mem::replace(&mut self.orchestration, Span::none());
        for span in [&self.request, &orchestration] {
            span.record("otel.status_code", "ERROR");
            span.record("otel.status_description", message);
        }
        self.request.record("http.response.status_code", status);
    }

    /// The response of the model server has begun.
    pub(super) fn respond(&self, status: u16) {
        self.request.record("http.response.status_code", status);
        if status >= 400 {
            self.request.record("otel.status_code", "ERROR");
        }
    }
}
