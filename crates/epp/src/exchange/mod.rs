//! One HTTP request: the state machine behind a stream.
//!
//! The request's body is held until it is complete, because the model and the prompt decide its destination. The request may
//! then wait twice, while other streams go on: for room in the pool, and for data that the scheduler needs. Then the header
//! reply and the unchanged body are sent together. The response passes through chunk by chunk.

use std::{mem, sync::Arc, task::Context, time::Duration};

use bytes::Bytes;
use longboat_accept::MemoryReservation;
use longboat_extproc::{Event, Headers, Incoming, Metadata, Outbox, Processor, ProcessorExchange};
use longboat_scheduler::{Reservation, Slot, config::Parser};
use tokio::time::Instant;

use crate::{
    admission::{InFlight, QueuePlace},
    answer::{Code, Refusal},
    body::{Api, ParsedBody},
    core::Core,
    decisions::Record,
    metrics::{ExtProcMetrics, InterChunkTimer, OpenStream, RequestLabels, WaitingGuard},
    request_trace::TraceEntry,
};

mod body_buffer;
mod forecast;
mod frames;
mod headers;
mod prepare;
mod request;
mod response;
pub(crate) mod rewrite;
mod send;
mod spans;
mod usage;

use body_buffer::Body;
use forecast::{Forecast, LatencyMeasurement};
use prepare::Preparation;
use rewrite::Rewrite;
use spans::RequestSpans;
pub(crate) use usage::UsageScan;

/// Creates an [`Exchange`] per stream.
#[derive(Debug)]
pub(crate) struct Picker(pub(crate) Arc<Core>);

impl Processor for Picker {
    type Exchange = Exchange;

    fn open(&self) -> Exchange {
        let stream = self.0.metrics.extproc.as_ref().map(ExtProcMetrics::opened);
        Exchange {
            core: Arc::clone(&self.0),
            phase: RequestPhase::Headers,
            stream,
            spans: RequestSpans::none(),
            request_id: String::new(),
        }
    }

    /// A picker that has just started knows no endpoints, and would refuse requests that another picker can serve.
    fn is_ready(&self) -> bool {
        self.0.pool.is_synced()
    }
}

/// The state of one request.
pub(crate) struct Exchange {
    core: Arc<Core>,
    phase: RequestPhase,
    /// Counts the stream as open. `None` if streams are not counted.
    stream: Option<OpenStream>,
    spans: RequestSpans,
    request_id: String,
}

/// Everything that is true of a request in each phase.
enum RequestPhase {
    /// Waits for the request's headers.
    Headers,
    /// Receives the request's body.
    Body(PendingRequest),
    /// The request waits until the pool has room for it.
    Queued(Box<QueuedRequest>),
    /// The request was admitted, and waits for data that the scheduler needs.
    Preparing(Box<Preparation>),
    /// The request was sent to an endpoint, and its response is not complete.
    Response(Box<RoutedRequest>),
    /// The picker's work is done, or there was none. The remaining messages pass through.
    Passing,
    /// The picker has answered the client with an error.
    Refused,
}

/// A request that is being received.
struct PendingRequest {
    headers: Headers,
    metadata: Option<Metadata>,
    body: Body,
    bytes: usize,
    since: Instant,
    /// The memory of the request's headers.
    _held: MemoryReservation,
}

/// A request whose body was read.
struct ParsedRequest {
    pending: PendingRequest,
    body: Bytes,
    trailers: bool,
    api: Api,
    parsed: ParsedBody,
    target: String,
    flow: String,
    labels: RequestLabels,
    request_id: String,
    /// The memory of the copies that were made from the body, and of what prompts have beyond it.
    _held: [MemoryReservation; 2],
    /// The memory of the prompt's tokens, if they were requested.
    tokens_held: Option<MemoryReservation>,
    /// The endpoint that was chosen together with other requests with the same prompt.
    burst_endpoint: Option<Slot>,
    /// The predicted latency on each endpoint, if a predictor is used.
    forecast: Forecast,
    /// The place in the trace of requests, if one is written.
    trace: Option<TraceEntry>,
}

/// A request that waits for room in the pool.
struct QueuedRequest {
    request: ParsedRequest,
    queued: QueuePlace,
    /// Counts the request as waiting. `None` if flow control is off.
    waiting: Option<WaitingGuard>,
}

/// A request that was sent to an endpoint.
struct RoutedRequest {
    reservation: Reservation,
    /// The model that the endpoint was asked for.
    model: String,
    labels: RequestLabels,
    /// The flow of the request. `None` if the fairness policy does not count service.
    flow: Option<String>,
    since: Instant,
    first_byte: Option<Duration>,
    /// The start of the response, and the picker's own time for it so far.
    response: Option<ResponseTimes>,
    response_bytes: usize,
    /// The HTTP status of the response, once it has begun.
    status: Option<u16>,
    response_headers: Vec<(String, String)>,
    stream: bool,
    /// Whether the response is an event stream and no error, so that its first part has the first token.
    has_events: bool,
    rewrite: Option<Rewrite>,
    usage: UsageScan,
    /// The parser that reads the response.
    parser: Parser,
    /// The chunks of a body that must be complete before it can be rewritten.
    held: Vec<Bytes>,
    /// The registration for eviction. `None` if eviction is off.
    in_flight: Option<InFlight>,
    /// Measures the times between the chunks of a stream.
    gaps: Option<InterChunkTimer>,
    /// Measures the request for the latency predictor.
    measurement: Option<LatencyMeasurement>,
    /// The endpoint.
    slot: Slot,
    /// The record of the decision, if decisions are kept.
    record: Option<Arc<Record>>,
    /// The place in the trace of requests, if one is written.
    trace: Option<TraceEntry>,
}

/// The times of a response.
#[derive(Clone, Copy)]
struct ResponseTimes {
    since: Instant,
    /// When the current part arrived.
    part: Instant,
    /// The time that the picker spent on the parts before.
    spent: Duration,
}

impl ProcessorExchange for Exchange {
    fn handle(&mut self, incoming: Incoming, out: &mut Outbox) {
        let Incoming { event, metadata } = incoming;
        match event {
            Event::RequestHeaders { headers, end_of_stream } => {
                self.request_headers(headers, end_of_stream, metadata, out);
            }
            Event::RequestBody { body, end_of_stream } => {
                self.request_body(body, end_of_stream, metadata, out);
            }
            Event::RequestTrailers(_) => self.request_trailers(metadata, out),
            // The picker has answered the client itself.
            _ if matches!(self.phase, RequestPhase::Refused) => {}
            response => {
                self.part_begins();
                match response {
                    Event::ResponseHeaders { headers, end_of_stream } => {
                        self.response_headers(&headers, end_of_stream, metadata.as_ref(), out);
                    }
                    Event::ResponseBody { body, end_of_stream } => {
                        self.response_body(body, end_of_stream, out);
                    }
                    _ => self.response_trailers(out),
                }
                self.part_ends();
            }
        }
    }

    fn ended(&mut self, status: u8) {
        if let Some(stream) = &mut self.stream {
            stream.ended(status);
        }
    }

    fn waits(&self) -> bool {
        match &self.phase {
            RequestPhase::Queued(_) | RequestPhase::Preparing(_) => true,
            RequestPhase::Response(routed) => routed.in_flight.as_ref().is_some_and(InFlight::waits),
            _ => false,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        // In the order of the phases: a request that leaves the queue now must register the waker of its next wait, too.
        self.poll_queued(context, out);
        self.poll_preparing(context, out);
        self.poll_in_flight(context, out);
    }
}

impl Exchange {
    #[cfg(test)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Checks whether the request in flight must make room for others, and then refuses it.
    fn poll_in_flight(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let RequestPhase::Response(routed) = &mut self.phase else { return };
        let Some(in_flight) = &mut routed.in_flight else { return };
        if in_flight.poll(context).is_ready() {
            let labels = routed.labels.clone();
            self.refuse(Some(labels), &Refusal::evicted(), out);
        }
    }

    /// Answers the client with an error. `labels` are those of a request whose body was read.
    fn refuse(&mut self, labels: Option<RequestLabels>, refusal: &Refusal, out: &mut Outbox) {
        tracing::debug!(
            request_id = self.request_id,
            status = refusal.code.status(),
            message = refusal.message,
            "Request refused."
        );
        self.spans.refuse(refusal.code.status(), &refusal.message);
        let labels = labels.unwrap_or_else(|| self.core.metrics.labels("", "", "", 0));
        self.core.metrics.failed(&labels, refusal.code.name());
        out.push(refusal.action());
        out.finish();
        self.end(RequestPhase::Refused);
    }

    /// Goes to a phase in which the picker does nothing more. A request in flight no longer counts as such.
    fn end(&mut self, phase: RequestPhase) {
        if let RequestPhase::Response(routed) = mem::replace(&mut self.phase, phase) {
            self.release(*routed, false);
        }
    }
}

impl Drop for Exchange {
    /// Nothing may stay counted as in flight after the stream has ended, with or without a response.
    fn drop(&mut self) {
        // A client that left while its request waited gets no answer, but its request counts as failed.
        let waiting = match &self.phase {
            RequestPhase::Queued(queued) => Some(&queued.request),
            RequestPhase::Preparing(preparation) => Some(&preparation.request),
            _ => None,
        };
        if let Some(request) = waiting {
            self.core.metrics.failed(&request.labels, Code::ServiceUnavailable.name());
        }
        self.end(RequestPhase::Passing);
    }
}
