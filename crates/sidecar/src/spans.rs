//! Trace spans of a request, with the names and attributes of llm-d's sidecar. If traces are not recorded, a span costs only the check of a
//! flag.

use http::{HeaderMap, Response};
use http_body_util::BodyExt as _;
use longboat_telemetry::traces::{SPANS, TraceHeaders, join_trace};
use tracing::Span;

use crate::{body::ProxyBody, target::Target};

/// From the head of a request to the end of its response. Belongs to the client's trace, if the headers name one.
pub(crate) fn request(headers: &HeaderMap, path: &str, is_disaggregated: bool) -> Span {
    let span = tracing::trace_span!(
        target: SPANS, parent: None, "forward_request", otel.kind = "server",
        llm_d.pd_proxy.request_path = path, llm_d.pd_proxy.disaggregation_used = is_disaggregated,
    );
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    join_trace(&span, TraceHeaders { parent: header("traceparent"), state: header("tracestate") });
    span
}

/// All attempts of a prefill.
pub(crate) fn prefill(target: &Target) -> Span {
    tracing::trace_span!(target: SPANS, "prefill", llm_d.pd_proxy.prefill_target = %target.authority())
}

/// From the request to the engine beside the sidecar to the end of its response.
pub(crate) fn decode() -> Span {
    tracing::trace_span!(target: SPANS, "decode")
}

/// Keeps a span open until the end of a response.
pub(crate) fn until_end_of(response: Response<ProxyBody>, span: Span) -> Response<ProxyBody> {
    if span.is_disabled() {
        return response;
    }
    response.map(|body| {
        let frames = body.map_frame(move |frame| {
            let _open = &span;
            frame
        });
        frames.boxed_unsync()
    })
}
