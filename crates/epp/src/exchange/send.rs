//! Picks the endpoint and sends the request there.

use std::sync::Arc;

use longboat_extproc::{Action, HeaderChanges, Headers, Metadata, Outbox, Reply, names};
use longboat_scheduler::{
    BurstSettings, Decision, Features, Flow, HeaderLookup, LatencyObjective, Request, Reservation, Slot,
    Snapshot,
};
use tokio::time::Instant;

use super::{
    Exchange, LatencyMeasurement, ParsedRequest, PendingRequest, RequestPhase, RoutedRequest, headers,
    rewrite::{self, Edit, Rewrite},
    usage::UsageScan,
};
use crate::{
    admission::Permit,
    answer::{Code, Refusal},
    body::Api,
    buffer_pool,
    decisions::Record,
    metrics::RequestLabels,
    subset,
};

/// A decision whose load is already counted.
struct Placement {
    decision: Decision,
    reservation: Reservation,
    scores: Option<serde_json::Value>,
    record: Option<Arc<Record>>,
    /// The endpoint of the request, and the endpoint that computes its prompt, if that is another one.
    slots: (Slot, Option<Slot>),
}

impl Exchange {
    /// Picks an endpoint and sends the request there. The unused permit keeps the request counted as admitted until it counts
    /// as in flight.
    pub(super) fn send(&mut self, request: ParsedRequest, _: &Permit, out: &mut Outbox) {
        let placement = match self.schedule(&request) {
            Ok(placement) => placement,
            Err(refusal) => return self.refuse(Some(request.labels), &refusal, out),
        };
        let Placement { mut decision, reservation, scores, record, slots } = placement;
        let priority = request.priority();
        let ParsedRequest {
            pending,
            body,
            trailers,
            api,
            parsed,
            target,
            flow,
            labels,
            request_id,
            forecast,
            trace,
            ..
        } = request;
        let measurement = self.core.predictor.as_ref().and_then(|predictor| {
            let objective = LatencyObjective::of(&Lookup(&pending.headers));
            LatencyMeasurement::new(predictor, &forecast, objective, slots.0, slots.1)
        });
        if record.is_some() {
            // The client needs this id to look the decision up.
            decision.response_headers.push((headers::REQUEST_ID.to_owned(), request_id.clone()));
        }
        tracing::debug!(
            request_id = request_id.as_str(),
            model = target.as_str(),
            destination = decision.destination.join(","),
            "Chose a pod for a request."
        );
        self.spans.decide(&target, priority, &decision.destination);
        self.core.metrics.running(&labels, 1);
        self.core.metrics.processed(pending.since.elapsed());
        let rewritten = (target != parsed.model).then(|| Rewrite::new(&target, &parsed.model));
        let model = rewritten.is_some().then(|| Edit::model(&parsed, &target));
        let priority_edit =
            self.core.settings.propagate_priority.then(|| Edit::priority(&body, &parsed, priority));
        let body = rewrite::request(&body, model.into_iter().chain(priority_edit.flatten()));
        out.push(Reply {
            action: Action::RequestHeaders(headers::request_changes(
                &pending.headers,
                &decision,
                body.len(),
                &request_id,
            )),
            metadata: destination(&decision, scores),
        });
        // If trailers follow, the last piece of the body does not end the request.
        out.push(Action::RequestBody { body, end_of_stream: !trailers });
        if trailers {
            out.push(Action::RequestTrailers(HeaderChanges::default()));
        }
        for prompt in parsed.prompts {
            buffer_pool::give(prompt.bytes);
        }
        self.phase = RequestPhase::Response(Box::new(RoutedRequest {
            reservation,
            model: target,
            labels,
            flow: self.core.admission.asks_for_service().then_some(flow),
            since: pending.since,
            first_byte: None,
            response: None,
            response_bytes: 0,
            status: None,
            response_headers: decision.response_headers,
            stream: parsed.stream,
            has_events: false,
            rewrite: rewritten,
            usage: UsageScan::of(api),
            parser: api.parser(),
            held: Vec::new(),
            in_flight: self.core.admission.sent(priority),
            gaps: None,
            measurement,
            slot: slots.0,
            // The picker never sees how a response to such a request ends.
            record: record.filter(|_| api != Api::CountTokens),
            trace,
        }));
        if api == Api::CountTokens {
            // The picker needs nothing from this response, so the proxy goes on alone.
            out.finish();
        }
    }

    fn schedule(&self, parsed: &ParsedRequest) -> Result<Placement, Refusal> {
        let core = &self.core;
        let started = Instant::now();
        let lookup = Lookup(&parsed.pending.headers);
        let request = parsed.question(&lookup);
        let state = core.state.read();
        // Under the lock, so that the state does not yet belong to the next owner of a candidate's slot.
        let candidates = self.candidates(&parsed.pending);
        let decided = core.scheduler.schedule(&state, &request, &candidates, core.now_ms(), &mut rand::rng());
        drop(state);
        let record = core.decisions.record(&request, &candidates, &decided, started.elapsed());
        let members = core.pool.members();
        let mut decision = match decided {
            Ok(decision) => decision,
            Err(error) => {
                core.metrics.scheduled(started.elapsed(), &parsed.target, None);
                return Err(error.into());
            }
        };
        core.metrics.prefixes.matched(decision.prefix_hits());
        core.metrics.encoder_cache.record_lookups(
            &parsed.parsed.media,
            decision.encoder_lookups(),
            &candidates,
        );
        if let Some(stages) = decision.disaggregation() {
            core.metrics.disagg.decided(core.scheduler.handler(), &parsed.labels.models.model_name, stages);
        }
        let slot = candidates[decision.primary_run().targets[0]].endpoint.slot;
        let member = members.iter().find(|member| member.endpoint.slot == slot);
        core.metrics.scheduled(started.elapsed(), &parsed.target, member.map(AsRef::as_ref));
        if headers::only_if_cached(&parsed.pending.headers)
            && decision.prefix_hit().is_none_or(|(matched, _)| matched == 0)
        {
            return Err(Refusal::new(
                Code::PreconditionFailed,
                "no decode worker has the requested KV cache",
            ));
        }
        let RequestLabels { fairness_id, priority, .. } = &parsed.labels;
        decision.flow = Some(Arc::new(Flow { fairness_id: fairness_id.to_string(), priority: *priority }));
        // Others may commit between the two locks, so requests of the same moment may be scheduled by the same loads. Under one write
        // lock, only one request at a time could be scheduled.
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
        let stages = decision.stages();
        let prefill = stages.prefill.map(|candidate| candidates[candidate].endpoint.slot);
        Ok(Placement { decision, reservation, scores, record, slots: (slot, prefill) })
    }

    /// Returns the endpoints that the request may go to.
    pub(super) fn candidates(&self, pending: &PendingRequest) -> Vec<Snapshot> {
        let mut candidates = self.core.snapshot();
        if !self.core.settings.ignore_subset {
            subset::apply(pending.metadata.as_ref(), &mut candidates);
        }
        candidates
    }

    /// Returns the features of the request for each endpoint that it may go to.
    pub(super) fn features(&self, parsed: &ParsedRequest) -> Vec<(Slot, Features)> {
        let candidates = self.candidates(&parsed.pending);
        let lookup = Lookup(&parsed.pending.headers);
        let core = &self.core;
        let request = parsed.question(&lookup);
        let features = core.scheduler.features(&core.state.read(), &request, &candidates, core.now_ms());
        candidates.iter().map(|candidate| candidate.endpoint.slot).zip(features).collect()
    }
}

impl ParsedRequest {
    /// Builds the scheduler's view of the request.
    fn question<'a>(&'a self, headers: &'a Lookup<'_>) -> Request<'a> {
        let parsed = &self.parsed;
        Request {
            id: &self.request_id,
            model: &self.target,
            cache_salt: &parsed.cache_salt,
            prompts: &parsed.prompts,
            exact: parsed.exact,
            multimodal: parsed.multimodal,
            priority: self.priority(),
            predictions: &self.forecast.predictions,
            burst_endpoint: self.burst_endpoint,
            media: &parsed.media,
            max_output_tokens: parsed.max_output_tokens,
            headers,
        }
    }

    /// Returns the block hashes of the request's prompts. Requests of a burst are compared by them.
    pub(super) fn blocks(&self, settings: &BurstSettings) -> Vec<u64> {
        settings.blocks(&self.question(&Lookup(&self.pending.headers)))
    }
}

/// Returns the metadata with the destination. It must name the same endpoints as the header.
fn destination(decision: &Decision, scores: Option<serde_json::Value>) -> Metadata {
    let mut metadata = Metadata::default();
    metadata.insert(names::LB_NAMESPACE, names::DESTINATION, decision.destination.join(",").into());
    if let Some(scores) = scores {
        metadata.insert(names::LB_NAMESPACE, names::DESTINATION_SCORES, scores);
    }
    metadata
}

/// Gives the scheduler access to the request's headers.
pub(super) struct Lookup<'a>(pub(super) &'a Headers);

impl HeaderLookup for Lookup<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.0.get(name)
    }
}
