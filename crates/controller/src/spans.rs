//! Trace spans of the controller. If traces are not recorded, a span costs only the check of a flag.

use longboat_telemetry::traces::SPANS;
use tracing::{Span, field::Empty};

use longboat_key::Key;

use crate::{
    error::ReconcileError,
    metrics::{ApiRequest, Phase, Worker},
};

/// A reconcile of an object.
pub(crate) fn reconcile(worker: Worker, key: &Key) -> Span {
    tracing::trace_span!(
        target: SPANS, parent: None, "reconcile",
        controller = worker.name(), namespace = %key.namespace, name = %key.name,
        otel.status_code = Empty, otel.status_description = Empty,
    )
}

/// Records how the reconcile of a span ended.
pub(crate) fn ended(span: &Span, result: &Result<(), ReconcileError>) {
    if let Err(error) = result {
        span.record("otel.status_code", "ERROR");
        span.record("otel.status_description", tracing::field::display(error));
    }
}

/// A phase of a reconcile.
pub(crate) fn phase(phase: Phase) -> Span {
    tracing::trace_span!(target: SPANS, "phase", otel.name = phase.name())
}

/// A write during a reconcile. Other writes, of leases and events, belong to no trace.
pub(crate) fn write(request: &ApiRequest) -> Span {
    match request.write() {
        Some((resource, verb)) if !Span::current().is_none() => tracing::trace_span!(
            target: SPANS, "write",
            otel.name = %format_args!("{verb} {resource}"), otel.kind = "client",
            k8s.resource = resource, k8s.verb = verb,
            http.response.status_code = Empty, otel.status_code = Empty,
        ),
        _ => Span::none(),
    }
}

/// A request to a webhook.
pub(crate) fn webhook(path: &str) -> Span {
    tracing::trace_span!(
        target: SPANS, parent: None, "webhook",
        otel.name = path, otel.kind = "server", url.path = path, http.response.status_code = Empty,
    )
}

/// Records the status code of a response in a span.
pub(crate) fn answered(span: &Span, code: Option<u16>) {
    if let Some(code) = code {
        span.record("http.response.status_code", code);
    }
    if code.is_none_or(|code| code >= 400) {
        span.record("otel.status_code", "ERROR");
    }
}
