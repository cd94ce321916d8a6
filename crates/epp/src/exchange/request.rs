//! Receives a request, holds it until it is complete, then reads and admits it.

use std::{borrow::Cow, mem};

use bytes::Bytes;
use longboat_extproc::{Action, Header, HeaderChanges, Headers, Metadata, Outbox, Reply, names};
use longboat_scheduler::flow;
use tokio::time::Instant;

use super::{
    Exchange, Forecast, ParsedRequest, PendingRequest, QueuedRequest, RequestPhase, body_buffer::Body,
    headers, send::Lookup, spans::RequestSpans,
};
use crate::{
    admission::AdmissionResult,
    answer::{Code, Refusal},
    body::{self, Api, ParsedBody, Reading},
    metrics::Work,
    request_trace::{self, Arrival, RequestTrace, TraceEntry},
};

/// The most memory for the headers of a request. Envoy's own limit is 60 KiB.
const MAX_HEADERS: usize = 1 << 20;

impl Exchange {
    pub(super) fn request_headers(
        &mut self,
        headers: Headers,
        end_of_stream: bool,
        metadata: Option<Metadata>,
        out: &mut Outbox,
    ) {
        if !matches!(self.phase, RequestPhase::Headers) {
            return;
        }
        self.spans = RequestSpans::begin(&headers);
        self.request_id = headers::request_id(&headers);
        if end_of_stream {
            return self.bodyless(out);
        }
        let size = headers::size(&headers);
        if size > MAX_HEADERS {
            let message = format!("the request headers have {size} bytes; expected at most {MAX_HEADERS}");
            return self.refuse(None, &Refusal::new(Code::HeadersTooLarge, message), out);
        }
        let Some(held) = self.core.bodies.hold(size) else {
            return self.refuse(None, &self.core.full(), out);
        };
        // The announced length is a claim of the client, so it never takes more memory than a body may have.
        let body = Body::new(headers::content_length(&headers).min(self.core.settings.max_body));
        let since = Instant::now();
        self.phase =
            RequestPhase::Body(PendingRequest { headers, metadata, body, bytes: 0, since, _held: held });
    }

    /// Sends a request without a body to any endpoint of the pool, as the reference does: there is nothing to schedule by.
    fn bodyless(&mut self, out: &mut Outbox) {
        use rand::seq::IndexedRandom as _;
        let members = self.core.pool.members();
        match members.choose(&mut rand::rng()) {
            None => self.refuse(None, &Refusal::new(Code::Internal, "no pods available in datastore"), out),
            Some(member) => {
                let destination = member.endpoint.host_port.clone();
                let mut metadata = Metadata::default();
                metadata.insert(names::LB_NAMESPACE, names::DESTINATION, destination.clone().into());
                out.push(Reply {
                    action: Action::RequestHeaders(HeaderChanges {
                        set: vec![Header::new(names::DESTINATION, destination)],
                        remove: Vec::new(),
                        clear_route_cache: true,
                    }),
                    metadata,
                });
                self.phase = RequestPhase::Passing;
            }
        }
    }

    pub(super) fn request_body(
        &mut self,
        body: Bytes,
        end_of_stream: bool,
        metadata: Option<Metadata>,
        out: &mut Outbox,
    ) {
        // Envoy may send another end of the body. The request was answered already.
        let RequestPhase::Body(pending) = &mut self.phase else {
            return;
        };
        pending.bytes += body.len();
        if pending.bytes > self.core.settings.max_body {
            let limit = self.core.settings.max_body;
            let refusal =
                Refusal::new(Code::PayloadTooLarge, format!("request body is longer than {limit} bytes"));
            return self.refuse(None, &refusal, out);
        }
        if pending.body.push(body, &self.core.bodies).is_none() {
            return self.refuse(None, &self.core.full(), out);
        }
        if metadata.is_some() {
            pending.metadata = metadata;
        }
        if end_of_stream {
            self.complete(false, out);
        }
    }

    /// Trailers end a body too. The reference hangs here.
    pub(super) fn request_trailers(&mut self, metadata: Option<Metadata>, out: &mut Outbox) {
        if let RequestPhase::Body(pending) = &mut self.phase {
            if metadata.is_some() {
                pending.metadata = metadata;
            }
            self.complete(true, out);
        }
    }

    /// Handles the complete request: picks an endpoint and sends the request on.
    fn complete(&mut self, trailers: bool, out: &mut Outbox) {
        let RequestPhase::Body(pending) = mem::replace(&mut self.phase, RequestPhase::Refused) else {
            return;
        };
        self.spans.orchestrate();
        match self.parse(pending, trailers) {
            Ok(request) => self.admit(request, out),
            Err(refusal) => self.refuse(None, &refusal, out),
        }
    }

    /// Returns the model for the endpoint. A rewrite rule for the model in the body wins over the header. A body without a place
    /// for a model stays as it is.
    fn target(&self, pending: &PendingRequest, parsed: &ParsedBody) -> String {
        if parsed.model_at.is_empty() {
            return parsed.model.clone();
        }
        let rewrites = self.core.rewrites.load();
        if let Some((rewrite, target)) = rewrites.target(&parsed.model, &mut rand::rng()) {
            self.core.metrics.rewritten(rewrite, &parsed.model, target);
            return target.to_owned();
        }
        headers::model_rewrite(&pending.headers).unwrap_or(&parsed.model).to_owned()
    }

    /// Returns the flow of the request: the one that it names, or the session of its agent.
    pub(super) fn flow<'h>(&self, headers: &'h Headers) -> Cow<'h, str> {
        if let Some(flow) = headers::fairness(headers) {
            return headers::short(Cow::Borrowed(flow));
        }
        let agents = self.core.scheduler.agents();
        let session = agents.and_then(|agents| agents.of(&Lookup(headers)).map(str::to_owned));
        session.map_or(Cow::Borrowed(headers::DEFAULT_FLOW), |session| headers::short(Cow::Owned(session)))
    }

    /// Reads the request.
    fn parse(&self, mut pending: PendingRequest, trailers: bool) -> Result<ParsedRequest, Refusal> {
        let path = headers::path(&pending.headers);
        let api = Api::of(path, &self.core.settings.parsers).ok_or_else(|| {
            let path = path.split('?').next().unwrap_or_default();
            Refusal::new(Code::BadRequest, format!("no parser registered matching path suffix for: {path}"))
        })?;
        let body = mem::take(&mut pending.body).whole();
        // Reading copies the prompt out of the body.
        let held = self.core.bodies.hold(body.len());
        let held = held.ok_or_else(|| self.core.full())?;
        let began = Instant::now();
        let mut parsed = body::parse(api, &body, &self.reading(&pending.headers))?;
        // Images and videos may count as more bytes than they have in the body.
        let prompts: usize = parsed.prompts.iter().map(|prompt| prompt.bytes.len()).sum();
        let held_more = self.core.bodies.hold(prompts.saturating_sub(body.len()));
        let held = [held, held_more.ok_or_else(|| self.core.full())?];
        if self.core.scheduler.looks_at_media() {
            parsed.media = body::media(api, &body);
        }
        self.core.metrics.plugins.observe_duration(Work::ReadRequest(api.parser()), began.elapsed());
        // A body that is not read keeps its model.
        let target = self.target(&pending, &parsed);
        let flow = self.flow(&pending.headers).into_owned();
        let priority = self.core.admission.priority(headers::objective(&pending.headers));
        let labels = self.core.metrics.labels(&parsed.model, &target, &flow, priority);
        self.core.metrics.started(&labels, pending.bytes);
        let mut request = ParsedRequest {
            pending,
            body,
            trailers,
            api,
            parsed,
            target,
            flow,
            labels,
            request_id: self.request_id.clone(),
            _held: held,
            tokens_held: None,
            burst_endpoint: None,
            forecast: Forecast::default(),
            trace: None,
        };
        request.trace = self.core.trace.as_ref().and_then(|trace| self.traced(trace, &request));
        Ok(request)
    }

    /// How the body of a request with these headers is read.
    fn reading(&self, headers: &Headers) -> Reading {
        let of_trace = if self.core.trace.is_some() { request_trace::TEXT_LIMIT } else { 0 };
        Reading {
            limit: self.core.scheduler.text_limit().max(of_trace),
            estimates: self.core.scheduler.media_estimates(),
            video: headers::video(headers),
        }
    }

    /// Adds the request to the trace.
    fn traced(&self, trace: &RequestTrace, request: &ParsedRequest) -> Option<TraceEntry> {
        let lookup = Lookup(&request.pending.headers);
        let agents = self.core.scheduler.agents();
        let session = request.pending.headers.get("x-session-id");
        trace.arrived(&Arrival {
            model: &request.target,
            priority: request.priority(),
            session: session.or_else(|| agents.and_then(|agents| agents.of(&lookup))),
            prompts: &request.parsed.prompts,
            is_exact: request.parsed.exact,
        })
    }

    /// Lets the request go on, queues it, or refuses it.
    fn admit(&mut self, request: ParsedRequest, out: &mut Outbox) {
        let arrival = flow::Arrival {
            priority: request.priority(),
            flow: &request.flow,
            bytes: u64::try_from(request.pending.bytes).unwrap_or(u64::MAX),
            within_ms: headers::first_token_within(&request.pending.headers),
        };
        let waiting = self.core.settings.flow.enabled;
        let waiting = waiting.then(|| self.core.metrics.flow.arrived(&request.labels, arrival.bytes));
        match self.core.admission.admit(&self.core, arrival) {
            Err(refusal) => {
                if let Some(waiting) = waiting {
                    waiting.rejected(&refusal);
                }
                self.refuse(Some(request.labels), &refusal, out);
            }
            Ok(AdmissionResult::Now(permit)) => {
                if let Some(waiting) = waiting {
                    waiting.enqueued("Dispatched");
                    waiting.dispatched();
                }
                self.prepare(request, permit, out);
            }
            Ok(AdmissionResult::Later(queued)) => {
                if let Some(waiting) = &waiting {
                    waiting.enqueued("NotYetFinalized");
                }
                self.phase = RequestPhase::Queued(Box::new(QueuedRequest { request, queued, waiting }));
            }
        }
    }
}

impl ParsedRequest {
    /// Returns the priority of the request.
    pub(super) fn priority(&self) -> i32 {
        i32::try_from(self.labels.priority).unwrap_or(0)
    }
}
