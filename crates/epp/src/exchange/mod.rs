//! One HTTP request: the state machine behind a stream.
//!
//! The request's body is held until it is complete, since the model and the prompt decide where it goes. It may then wait
//! twice, while other streams go on: for room in the pool, and for what has to be found out before it can be scheduled. At
//! last the header reply and the body, as it came, leave together. The response passes through chunk by chunk.

use std::{sync::Arc, task::Context, time::Duration};

use bytes::Bytes;
use longboat_accept::Held;
use longboat_extproc::{Event, Headers, Incoming, Metadata, Outbox, Processor, ProcessorExchange};
use longboat_scheduler::{Reservation, Slot};
use tokio::time::Instant;

use crate::{
    admission::{InFlight, Queued},
    answer::{Code, Refusal},
    body::{Api, Parsed},
    core::Core,
    decisions::Record,
    metrics::{ExtProcMetrics, Gaps, OpenStream, RequestLabels, Waiting},
};

mod forecast;
mod frames;
mod headers;
mod prepare;
mod request;
mod response;
pub(crate) mod rewrite;
mod send;
mod usage;
mod whole;

use forecast::{Forecast, Watched};
use prepare::Preparing;
use rewrite::Rewrite;
pub(crate) use usage::UsageScan;
use whole::Body;

/// Makes an [`Exchange`] per stream.
#[derive(Debug)]
pub(crate) struct Picker(pub(crate) Arc<Core>);

impl Processor for Picker {
    type Exchange = Exchange;

    fn open(&self) -> Exchange {
        let stream = self.0.metrics.extproc.as_ref().map(ExtProcMetrics::opened);
        Exchange { core: Arc::clone(&self.0), phase: Phase::Headers, labels: None, picked: None, stream }
    }

    /// A picker that has just started knows no endpoint, and would refuse what any of them could answer.
    fn is_ready(&self) -> bool {
        self.0.pool.is_synced()
    }
}

/// The state of one request.
pub(crate) struct Exchange {
    core: Arc<Core>,
    phase: Phase,
    /// The labels of a request whose body was understood, until it is scheduled.
    labels: Option<RequestLabels>,
    /// What a scheduled request holds until its response is done.
    picked: Option<Picked>,
    /// The stream itself, where streams are counted.
    stream: Option<OpenStream>,
}

enum Phase {
    /// Nothing came yet.
    Headers,
    /// The request's body comes.
    Body(Pending),
    /// The request waits until the pool has room for it.
    Queued(Box<(Understood, Queued, Option<Waiting>)>),
    /// The request has room, and waits for what is found out about it.
    Preparing(Box<Preparing>),
    /// The request was sent on.
    Response,
    /// Nothing more is to be done; what still comes passes through.
    Passing,
    /// The client was answered.
    Refused,
}

/// A request on its way in.
struct Pending {
    headers: Headers,
    metadata: Option<Metadata>,
    body: Body,
    bytes: usize,
    since: Instant,
    /// The memory of the headers.
    _held: Held,
}

/// A request whose body was read.
struct Understood {
    pending: Pending,
    body: Bytes,
    trailers: bool,
    api: Api,
    parsed: Parsed,
    target: String,
    labels: RequestLabels,
    request_id: String,
    /// The memory of what was copied out of the body.
    _held: Held,
    /// The memory of its tokens, where they were asked for.
    tokens_held: Option<Held>,
    /// Where it should go with others that have its prompt, where such are waited for.
    together: Option<Slot>,
    /// How long it would take, where that is asked.
    forecast: Forecast,
}

/// A request that was sent to an endpoint.
struct Picked {
    reservation: Reservation,
    labels: RequestLabels,
    /// Whom the request belongs to, where that decides who comes next.
    flow: Option<String>,
    since: Instant,
    first_byte: Option<Duration>,
    /// When its response began, and what this cost here so far.
    response: Option<Responding>,
    response_bytes: usize,
    response_headers: Vec<(String, String)>,
    stream: bool,
    rewrite: Option<Rewrite>,
    usage: UsageScan,
    /// A body that has to be seen whole before it can be rewritten.
    held: Vec<Bytes>,
    /// Its place among the requests that may have to make room, where any may.
    in_flight: Option<InFlight>,
    /// The times between the chunks of a stream, once it has begun.
    gaps: Option<Gaps>,
    /// What it teaches a predictor, where there is one.
    watched: Option<Watched>,
    /// Where it went.
    slot: Slot,
    /// The decision, where decisions are kept.
    record: Option<Arc<Record>>,
}

/// The time of a response.
#[derive(Clone, Copy)]
struct Responding {
    since: Instant,
    /// When the part that is worked on came.
    part: Instant,
    /// How long the parts before it took.
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
            Event::ResponseHeaders { headers, end_of_stream } => {
                self.part_begins();
                self.response_headers(&headers, end_of_stream, metadata.as_ref(), out);
                self.part_ends();
            }
            Event::ResponseBody { body, end_of_stream } => {
                self.part_begins();
                self.response_body(body, end_of_stream, out);
                self.part_ends();
            }
            Event::ResponseTrailers(_) => {
                self.part_begins();
                self.response_trailers(out);
            }
        }
    }

    fn ended(&mut self, status: u8) {
        if let Some(stream) = &mut self.stream {
            stream.ended(status);
        }
    }

    fn waits(&self) -> bool {
        let in_flight = self.picked.as_ref().and_then(|picked| picked.in_flight.as_ref());
        matches!(self.phase, Phase::Queued(_) | Phase::Preparing(_)) || in_flight.is_some_and(InFlight::waits)
    }

    fn poll(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
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

    /// A request in flight may have to make room for others, until its response is complete.
    fn poll_in_flight(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let in_flight = self.picked.as_mut().and_then(|picked| picked.in_flight.as_mut());
        if in_flight.is_some_and(|request| request.poll(context).is_ready()) {
            self.labels = self.picked.as_ref().map(|picked| picked.labels.clone());
            self.refuse(&Refusal::evicted(), out);
        }
    }

    fn refuse(&mut self, refusal: &Refusal, out: &mut Outbox) {
        tracing::debug!(status = refusal.code.status(), message = refusal.message, "Request refused.");
        let labels = self.labels.take();
        let labels = labels.unwrap_or_else(|| self.core.metrics.labels("", "", "", 0));
        self.core.metrics.failed(&labels, refusal.code.name());
        out.push(refusal.action());
        out.finish();
        self.phase = Phase::Refused;
    }
}

impl Drop for Exchange {
    /// The stream is over, with or without a response: nothing stays counted as in flight.
    fn drop(&mut self) {
        if let Some(picked) = self.picked.take() {
            self.release(picked);
        }
        // A client that left while it waited gets no answer, but counts.
        if let (Phase::Queued(_), Some(labels)) = (&self.phase, self.labels.take()) {
            self.core.metrics.failed(&labels, Code::ServiceUnavailable.name());
        }
    }
}
