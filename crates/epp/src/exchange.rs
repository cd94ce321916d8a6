//! One HTTP request: the state machine behind a stream.
//!
//! The request's body is held until it is complete, since the model and the prompt decide where it goes; then the
//! header reply and the body, as it came, leave together. The response passes through chunk by chunk.

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use longboat_accept::Held;
use longboat_extproc::{
    Action, Event, Header, HeaderChanges, Headers, Incoming, Metadata, Outbox, Processor, ProcessorExchange,
    Reply, names,
};
use longboat_scheduler::{Decision, HeaderLookup, Request, Reservation, flow};
use tokio::time::Instant;

use crate::{
    admission::{Admitted, Permit, Queued},
    answer::{Code, Refusal},
    body::{self, Api, Parsed},
    core::Core,
    metrics::{Finished, RequestLabels},
    subset,
};

mod headers;
mod rewrite;
mod usage;

use rewrite::Rewrite;
use usage::UsageScan;

/// Makes an [`Exchange`] per stream.
#[derive(Debug)]
pub(crate) struct Picker(pub(crate) Arc<Core>);

impl Processor for Picker {
    type Exchange = Exchange;

    fn open(&self) -> Exchange {
        Exchange { core: Arc::clone(&self.0), phase: Phase::Headers, labels: None, picked: None }
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
}

enum Phase {
    /// Nothing came yet.
    Headers,
    /// The request's body comes.
    Body(Pending),
    /// The request waits until the pool has room for it.
    Queued(Box<(Understood, Queued)>),
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
    chunks: Vec<Bytes>,
    bytes: usize,
    since: Instant,
}

/// A request whose body was read.
struct Understood {
    pending: Pending,
    trailers: bool,
    api: Api,
    parsed: Parsed,
    target: String,
    labels: RequestLabels,
    request_id: String,
    /// The memory of what was copied out of the body.
    _held: Held,
}

/// A request that was sent to an endpoint.
struct Picked {
    reservation: Reservation,
    labels: RequestLabels,
    since: Instant,
    first_byte: Option<Duration>,
    response_bytes: usize,
    response_headers: Vec<(String, String)>,
    stream: bool,
    rewrite: Option<Rewrite>,
    usage: UsageScan,
    /// A body that has to be seen whole before it can be rewritten.
    held: Vec<Bytes>,
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
                self.response_headers(&headers, end_of_stream, out);
            }
            Event::ResponseBody { body, end_of_stream } => self.response_body(body, end_of_stream, out),
            Event::ResponseTrailers(_) => self.response_trailers(out),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let Phase::Queued(waiting) = &mut self.phase else { return };
        let Poll::Ready(admitted) = waiting.1.poll(context) else { return };
        let Phase::Queued(waiting) = mem::replace(&mut self.phase, Phase::Refused) else { return };
        let sent = admitted.and_then(|permit| self.send(waiting.0, &permit, out));
        if let Err(refusal) = sent {
            self.refuse(&refusal, out);
        }
    }
}

// === request ===

impl Exchange {
    #[cfg(test)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn request_headers(
        &mut self,
        headers: Headers,
        end_of_stream: bool,
        metadata: Option<Metadata>,
        out: &mut Outbox,
    ) {
        if !matches!(self.phase, Phase::Headers) {
            return;
        }
        if end_of_stream {
            return self.bodyless(out);
        }
        self.phase =
            Phase::Body(Pending { headers, metadata, chunks: Vec::new(), bytes: 0, since: Instant::now() });
    }

    /// Without a body there is nothing to schedule by: any endpoint of the pool, as in the reference.
    fn bodyless(&mut self, out: &mut Outbox) {
        use rand::seq::IndexedRandom as _;
        let members = self.core.pool.members();
        match members.choose(&mut rand::rng()) {
            None => self.refuse(&Refusal::new(Code::Internal, "no pods available in datastore"), out),
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
                self.phase = Phase::Response;
            }
        }
    }

    fn request_body(
        &mut self,
        body: Bytes,
        end_of_stream: bool,
        metadata: Option<Metadata>,
        out: &mut Outbox,
    ) {
        // After the end, Envoy may send another one: there is nothing left to answer.
        let Phase::Body(pending) = &mut self.phase else {
            return;
        };
        pending.bytes += body.len();
        if pending.bytes > self.core.settings.max_body {
            let limit = self.core.settings.max_body;
            let refusal =
                Refusal::new(Code::PayloadTooLarge, format!("request body is longer than {limit} bytes"));
            return self.refuse(&refusal, out);
        }
        if !body.is_empty() {
            let Some(body) = self.core.bodies.keep(body) else {
                return self.refuse(&Refusal::full(self.core.bodies.limit()), out);
            };
            pending.chunks.push(body);
        }
        if metadata.is_some() {
            pending.metadata = metadata;
        }
        if end_of_stream {
            self.complete(false, out);
        }
    }

    /// Trailers end a body too. The reference waits for an end that never comes.
    fn request_trailers(&mut self, metadata: Option<Metadata>, out: &mut Outbox) {
        if let Phase::Body(pending) = &mut self.phase {
            if metadata.is_some() {
                pending.metadata = metadata;
            }
            self.complete(true, out);
        }
    }

    /// The request is complete: pick, and send it on.
    fn complete(&mut self, trailers: bool, out: &mut Outbox) {
        let Phase::Body(pending) = mem::replace(&mut self.phase, Phase::Refused) else {
            return;
        };
        if let Err(refusal) = self.pick(pending, trailers, out) {
            self.refuse(&refusal, out);
        }
    }

    fn pick(&mut self, pending: Pending, trailers: bool, out: &mut Outbox) -> Result<(), Refusal> {
        let path = headers::path(&pending.headers);
        let api = Api::of(path, &self.core.settings.parsers).ok_or_else(|| {
            let path = path.split('?').next().unwrap_or_default();
            Refusal::new(Code::BadRequest, format!("no parser registered matching path suffix for: {path}"))
        })?;
        // The prompt is copied out of the body, and a body in several chunks is made one.
        let copies = if pending.chunks.len() > 1 { 2 } else { 1 };
        let held = self.core.bodies.hold(pending.bytes * copies);
        let held = held.ok_or_else(|| Refusal::full(self.core.bodies.limit()))?;
        let parsed = match pending.chunks.as_slice() {
            [] => body::parse(api, &[])?,
            [only] => body::parse(api, only)?,
            several => body::parse(api, &several.concat())?,
        };
        // A body that is not read is not rewritten either.
        let asked = headers::model_rewrite(&pending.headers).filter(|_| api != Api::Opaque);
        let target = asked.unwrap_or(&parsed.model).to_owned();
        let flow = headers::fairness(&pending.headers);
        let priority = self.core.admission.priority(headers::objective(&pending.headers));
        let labels = self.core.metrics.labels(&parsed.model, &target, flow, priority);
        self.core.metrics.started(&labels, pending.bytes);
        let request_id = headers::request_id(&pending.headers);
        self.labels = Some(labels.clone());
        let arrival = flow::Arrival {
            priority,
            flow,
            bytes: u64::try_from(pending.bytes).unwrap_or(u64::MAX),
            within_ms: headers::first_token_within(&pending.headers),
        };
        let admitted = self.core.admission.admit(&self.core, arrival)?;
        let understood =
            Understood { pending, trailers, api, parsed, target, labels, request_id, _held: held };
        match admitted {
            Admitted::Now(permit) => self.send(understood, &permit, out),
            Admitted::Later(queued) => {
                self.phase = Phase::Queued(Box::new((understood, queued)));
                Ok(())
            }
        }
    }

    /// Picks an endpoint, and sends the request there. It counts as admitted until it counts as in flight.
    fn send(&mut self, understood: Understood, _: &Permit, out: &mut Outbox) -> Result<(), Refusal> {
        let Understood { pending, trailers, api, parsed, target, labels, request_id, .. } = understood;
        let (decision, reservation, scores) = self.schedule(&pending, &parsed, &target, &request_id)?;
        self.core.metrics.running(&labels, 1);
        let rewritten = (target != parsed.model).then(|| Rewrite::new(&target, &parsed.model));
        let chunks = if rewritten.is_some() {
            vec![rewrite::request(&pending.chunks, &parsed.model_at, &target)]
        } else {
            pending.chunks
        };
        let length: usize = chunks.iter().map(Bytes::len).sum();
        out.push(Reply {
            action: Action::RequestHeaders(headers::request_changes(
                &pending.headers,
                &decision,
                length,
                &request_id,
            )),
            metadata: destination(&decision, scores),
        });
        send_body(chunks, trailers, out);
        if trailers {
            out.push(Action::RequestTrailers(HeaderChanges::default()));
        }
        self.picked = Some(Picked {
            reservation,
            labels,
            since: pending.since,
            first_byte: None,
            response_bytes: 0,
            response_headers: decision.response_headers,
            stream: parsed.stream,
            rewrite: rewritten,
            usage: UsageScan::default(),
            held: Vec::new(),
        });
        self.phase = Phase::Response;
        if api == Api::CountTokens {
            // Its response is of no interest: the proxy goes on without us.
            self.phase = Phase::Passing;
            out.finish();
        }
        Ok(())
    }

    fn schedule(
        &self,
        pending: &Pending,
        parsed: &Parsed,
        target: &str,
        request_id: &str,
    ) -> Result<(Decision, Reservation, Option<serde_json::Value>), Refusal> {
        let core = &self.core;
        let started = Instant::now();
        let mut candidates = core.snapshot();
        if !core.settings.ignore_subset {
            subset::apply(pending.metadata.as_ref(), &mut candidates);
        }
        let lookup = Lookup(&pending.headers);
        let request = Request {
            id: request_id,
            model: target,
            cache_salt: &parsed.cache_salt,
            prompts: &parsed.prompts,
            multimodal: parsed.multimodal,
            priority: self.labels.as_ref().map_or(0, |labels| i32::try_from(labels.priority).unwrap_or(0)),
            headers: &lookup,
        };
        let decided = core.scheduler.schedule(
            &core.state.read(),
            &request,
            &candidates,
            core.now_ms(),
            &mut rand::rng(),
        );
        let members = core.pool.members();
        let decision = match decided {
            Ok(decision) => decision,
            Err(error) => {
                core.metrics.scheduled(started.elapsed(), target, None);
                return Err(error.into());
            }
        };
        let slot = candidates[decision.primary_run().targets[0]].endpoint.slot;
        let member = members.iter().find(|member| member.endpoint.slot == slot);
        core.metrics.scheduled(started.elapsed(), target, member.map(AsRef::as_ref));
        if headers::only_if_cached(&pending.headers)
            && decision.prefix_hit().is_none_or(|(matched, _)| matched == 0)
        {
            return Err(Refusal::new(
                Code::PreconditionFailed,
                "no decode worker has the requested KV cache",
            ));
        }
        let reservation = core.scheduler.commit(&mut core.state.write(), &decision);
        let scores = core.settings.emit_scores.then(|| {
            decision
                .primary_run()
                .totals
                .iter()
                .map(|&(candidate, total)| {
                    (candidates[candidate].endpoint.host_port.clone(), serde_json::Value::from(total))
                })
                .collect()
        });
        Ok((decision, reservation, scores))
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

/// The header and the metadata must say the same.
fn destination(decision: &Decision, scores: Option<serde_json::Value>) -> Metadata {
    let mut metadata = Metadata::default();
    metadata.insert(names::LB_NAMESPACE, names::DESTINATION, decision.destination.join(",").into());
    if let Some(scores) = scores {
        metadata.insert(names::LB_NAMESPACE, names::DESTINATION_SCORES, scores);
    }
    metadata
}

/// The body, chunk by chunk as it came. Before trailers, it does not end with its last chunk.
fn send_body(chunks: Vec<Bytes>, trailers: bool, out: &mut Outbox) {
    let last = chunks.len().saturating_sub(1);
    if chunks.is_empty() {
        out.push(Action::RequestBody { body: Bytes::new(), end_of_stream: !trailers });
    }
    for (index, body) in chunks.into_iter().enumerate() {
        out.push(Action::RequestBody { body, end_of_stream: index == last && !trailers });
    }
}

struct Lookup<'a>(&'a Headers);

impl HeaderLookup for Lookup<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.0.get(name)
    }
}

// === response ===

impl Exchange {
    fn response_headers(&mut self, headers: &Headers, end_of_stream: bool, out: &mut Outbox) {
        if matches!(self.phase, Phase::Refused) {
            return;
        }
        let extra = match &mut self.picked {
            None => &[][..],
            Some(picked) => {
                let status: u16 =
                    headers.get(":status").and_then(|status| status.parse().ok()).unwrap_or(200);
                if status >= 400 {
                    self.core.metrics.failed(&picked.labels, "ModelServerError");
                }
                picked.stream |=
                    headers.get("content-type").is_some_and(|kind| kind.contains("text/event-stream"));
                &picked.response_headers
            }
        };
        out.push(Action::ResponseHeaders(headers::response_changes(headers, extra)));
        if end_of_stream {
            self.finish();
        }
    }

    fn response_body(&mut self, body: Bytes, end_of_stream: bool, out: &mut Outbox) {
        if matches!(self.phase, Phase::Refused) {
            return;
        }
        let Some(picked) = &mut self.picked else {
            out.push(Action::ResponseBody { body, end_of_stream });
            return;
        };
        if picked.first_byte.is_none() && !body.is_empty() {
            picked.first_byte = Some(picked.since.elapsed());
            self.core.state.write().first_chunk(&mut picked.reservation);
        }
        picked.response_bytes += body.len();
        picked.usage.push(&body);
        match &picked.rewrite {
            None => out.push(Action::ResponseBody { body, end_of_stream }),
            Some(rewrite) if picked.stream => {
                let body = rewrite.response(body);
                out.push(Action::ResponseBody { body, end_of_stream });
            }
            Some(rewrite) => {
                let kept = self.core.bodies.keep(body.clone());
                // Without memory for more of it, the response goes on in pieces.
                let whole = kept.is_none() || end_of_stream;
                picked.held.push(kept.unwrap_or(body));
                if whole {
                    let whole = Bytes::from(mem::take(&mut picked.held).concat());
                    out.push(Action::ResponseBody { body: rewrite.response(whole), end_of_stream });
                }
            }
        }
        if end_of_stream {
            self.finish();
        }
    }

    fn response_trailers(&mut self, out: &mut Outbox) {
        if matches!(self.phase, Phase::Refused) {
            return;
        }
        if let Some(picked) = &mut self.picked
            && let Some(rewrite) = &picked.rewrite
            && !picked.held.is_empty()
        {
            let whole = Bytes::from(mem::take(&mut picked.held).concat());
            out.push(Action::ResponseBody { body: rewrite.response(whole), end_of_stream: false });
        }
        out.push(Action::ResponseTrailers(HeaderChanges::default()));
        self.finish();
    }

    /// The response is complete.
    fn finish(&mut self) {
        if let Some(picked) = self.picked.take() {
            self.release(picked);
        }
        self.phase = Phase::Passing;
    }

    fn release(&self, picked: Picked) {
        let metrics = &self.core.metrics;
        metrics.running(&picked.labels, -1);
        metrics.finished(
            &picked.labels,
            Finished {
                duration: picked.since.elapsed(),
                first_byte: picked.first_byte,
                response_bytes: picked.response_bytes,
                usage: picked.usage.usage(),
            },
        );
        self.core.state.write().release(picked.reservation);
    }
}

impl Drop for Exchange {
    /// The stream is over, with or without a response: nothing stays counted as in flight.
    fn drop(&mut self) {
        if let Some(picked) = self.picked.take() {
            self.release(picked);
        }
    }
}
