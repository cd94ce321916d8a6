//! Picks the endpoint and sends the request there.

use std::sync::Arc;

use longboat_extproc::{Action, HeaderChanges, Headers, Metadata, Outbox, Reply, names};
use longboat_scheduler::{
    BurstSettings, Decision, Features, Flow, HeaderLookup, Prediction, Request, Reservation, Slot, Snapshot,
    Wanted,
};
use tokio::time::Instant;

use super::{
    Exchange, Pending, Phase, Picked, Understood, Watched, headers,
    rewrite::{self, Rewrite},
    usage::UsageScan,
};
use crate::{
    admission::Permit,
    answer::{Code, Refusal},
    body::{Api, Parsed},
    buffer_pool,
    decisions::Record,
    subset,
};

/// A decision whose load is already counted.
struct Scheduled {
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
    pub(super) fn send(
        &mut self,
        understood: Understood,
        _: &Permit,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Understood {
            pending,
            body,
            trailers,
            api,
            parsed,
            target,
            labels,
            request_id,
            together,
            forecast,
            ..
        } = understood;
        let Scheduled { mut decision, reservation, scores, record, slots } =
            self.schedule(&pending, &parsed, &target, &request_id, (&forecast.predictions, together))?;
        let watched = self.core.predictor.as_ref().and_then(|predictor| {
            let wanted = Wanted::of(&Lookup(&pending.headers));
            Watched::new(predictor, &forecast, wanted, slots.0, slots.1)
        });
        if record.is_some() {
            // The client needs this id to look the decision up.
            decision.response_headers.push((headers::REQUEST_ID.to_owned(), request_id.clone()));
        }
        self.core.metrics.running(&labels, 1);
        self.core.metrics.processed(pending.since.elapsed());
        let flow = self.core.admission.asks_for_service();
        let flow = flow.then(|| self.flow(&pending.headers).into_owned());
        let rewritten = (target != parsed.model).then(|| Rewrite::new(&target, &parsed.model));
        let body =
            if rewritten.is_some() { rewrite::request(&body, &parsed.model_at, &target) } else { body };
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
        let priority = labels.priority;
        self.picked = Some(Picked {
            reservation,
            labels,
            flow,
            since: pending.since,
            first_byte: None,
            response: None,
            response_bytes: 0,
            response_headers: decision.response_headers,
            stream: parsed.stream,
            rewrite: rewritten,
            usage: UsageScan::of(api),
            parser: api.parser(),
            held: Vec::new(),
            in_flight: self.core.admission.sent(i32::try_from(priority).unwrap_or(0)),
            gaps: None,
            watched,
            slot: slots.0,
            record,
        });
        self.phase = Phase::Response;
        if api == Api::CountTokens {
            // The picker needs nothing from this response, so the proxy goes on alone.
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
        found: (&[(Slot, Prediction)], Option<Slot>),
    ) -> Result<Scheduled, Refusal> {
        let core = &self.core;
        let started = Instant::now();
        let candidates = self.candidates(pending);
        let lookup = Lookup(&pending.headers);
        let request = self.question(parsed, target, request_id, found, &lookup);
        let decided = core.scheduler.schedule(
            &core.state.read(),
            &request,
            &candidates,
            core.now_ms(),
            &mut rand::rng(),
        );
        let record = core.decisions.record(&request, &candidates, &decided, started.elapsed());
        let members = core.pool.members();
        let mut decision = match decided {
            Ok(decision) => decision,
            Err(error) => {
                core.metrics.scheduled(started.elapsed(), target, None);
                return Err(error.into());
            }
        };
        core.metrics.prefixes.matched(decision.prefix_hits());
        core.metrics.encoder_cache.looked_up(&parsed.media, &decision.encoder_lookups, &candidates);
        if let Some(stages) = decision.disaggregation() {
            let model = self.labels.as_ref().map_or("", |labels| &labels.model_name);
            core.metrics.disagg.decided(core.scheduler.handler(), model, stages);
        }
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
        decision.flow = self.labels.as_ref().map(|labels| {
            Arc::new(Flow { fairness_id: labels.fairness_id.clone(), priority: labels.priority })
        });
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
        Ok(Scheduled { decision, reservation, scores, record, slots: (slot, prefill) })
    }

    /// Returns the endpoints that the request may go to.
    pub(super) fn candidates(&self, pending: &Pending) -> Vec<Snapshot> {
        let mut candidates = self.core.snapshot();
        if !self.core.settings.ignore_subset {
            subset::apply(pending.metadata.as_ref(), &mut candidates);
        }
        candidates
    }

    /// Builds the scheduler's view of a request.
    fn question<'a>(
        &self,
        parsed: &'a Parsed,
        target: &'a str,
        request_id: &'a str,
        (predictions, together): (&'a [(Slot, Prediction)], Option<Slot>),
        headers: &'a Lookup<'_>,
    ) -> Request<'a> {
        Request {
            id: request_id,
            model: target,
            cache_salt: &parsed.cache_salt,
            prompts: &parsed.prompts,
            exact: parsed.exact,
            multimodal: parsed.multimodal,
            priority: self.labels.as_ref().map_or(0, |labels| i32::try_from(labels.priority).unwrap_or(0)),
            predictions,
            together,
            media: &parsed.media,
            headers,
        }
    }

    /// Returns the block hashes of the request's prompts. Requests of a burst are compared by them.
    pub(super) fn blocks(&self, understood: &Understood, settings: &BurstSettings) -> Vec<u64> {
        let lookup = Lookup(&understood.pending.headers);
        let Understood { parsed, target, request_id, .. } = understood;
        settings.blocks(&self.question(parsed, target, request_id, (&[], None), &lookup))
    }

    /// Returns the features of the request for each endpoint that it may go to.
    pub(super) fn features(&self, understood: &Understood) -> Vec<(Slot, Features)> {
        let candidates = self.candidates(&understood.pending);
        let lookup = Lookup(&understood.pending.headers);
        let found = (&[][..], understood.together);
        let request =
            self.question(&understood.parsed, &understood.target, &understood.request_id, found, &lookup);
        let core = &self.core;
        let features = core.scheduler.features(&core.state.read(), &request, &candidates, core.now_ms());
        candidates.iter().map(|candidate| candidate.endpoint.slot).zip(features).collect()
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
