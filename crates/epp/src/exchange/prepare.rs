//! The waits of a request before it is scheduled: for the tokens of its prompt, for others with the same prompt, and for
//! latency predictions.
//!
//! All waits are polled with the stream. A waiting request does not block others, and a cancelled request stops waiting.

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use longboat_extproc::Outbox;
use longboat_scheduler::{Prediction, Slot};
use tokio::time::{Instant, Timeout, error::Elapsed};

use super::{Exchange, ParsedRequest, QueuedRequest, RequestPhase};
use crate::{
    admission::Permit,
    burst::Seat,
    latency::PredictError,
    metrics::Work,
    tokens::{Answer, Question, TokenError, Tokens},
};

/// An admitted request that waits for data that the scheduler needs.
pub(super) struct Preparation {
    pub(super) request: ParsedRequest,
    permit: Permit,
    wait: Wait,
    since: Instant,
}

/// The thing that a request waits for.
enum Wait {
    /// The tokens of its prompt.
    Tokens(Pin<Box<Timeout<Answer>>>),
    /// Other requests with the same prompt.
    Burst(Seat),
    /// Its predicted latency.
    Latency(BoxFuture<'static, Result<Vec<Prediction>, PredictError>>),
}

/// The result of the wait.
enum WaitResult {
    Tokens(Result<Result<Tokens, TokenError>, Elapsed>),
    Burst(Option<Slot>),
    Latency(Result<Vec<Prediction>, PredictError>),
}

impl Exchange {
    /// Gets the data that the scheduler needs about an admitted request, then sends the request on.
    pub(super) fn prepare(&mut self, request: ParsedRequest, permit: Permit, out: &mut Outbox) {
        let question = Question {
            api: request.api,
            parsed: &request.parsed,
            body: &request.body,
            bodies: &self.core.bodies,
        };
        let lookup = self.core.tokens.as_ref().and_then(|source| source.ask(&question));
        let Some(lookup) = lookup else { return self.gather(request, permit, out) };
        let answer = Box::pin(tokio::time::timeout(lookup.patience, lookup.answer));
        self.wait(request, permit, Wait::Tokens(answer));
    }

    /// Waits for other requests with the same prompt, if bursts are configured. A request without a prompt does not wait.
    fn gather(&mut self, request: ParsedRequest, permit: Permit, out: &mut Outbox) {
        let Some(bursts) = &self.core.bursts else { return self.predict_latency(request, permit, out) };
        let blocks = request.blocks(&bursts.settings);
        if blocks.is_empty() {
            return self.predict_latency(request, permit, out);
        }
        let Some(seat) = bursts.join(blocks, &self.candidates(&request.pending)) else {
            tracing::debug!(
                "Too many requests arrived at the same time; scheduling this one without the others."
            );
            return self.predict_latency(request, permit, out);
        };
        self.wait(request, permit, Wait::Burst(seat));
    }

    /// Asks for the predicted latency on each endpoint, if a predictor is configured.
    fn predict_latency(&mut self, mut request: ParsedRequest, permit: Permit, out: &mut Outbox) {
        if let (Some(predictor), Some(settings)) = (&self.core.predictor, self.core.scheduler.latency()) {
            request.forecast.features = self.features(&request);
            let features = &request.forecast.features;
            if settings.predict && !features.is_empty() && predictor.may_send() {
                let features = features.iter().map(|(_, features)| features.clone()).collect();
                let predictor = Arc::clone(predictor);
                let answer = async move { predictor.predict(features).await };
                return self.wait(request, permit, Wait::Latency(Box::pin(answer)));
            }
        }
        self.send(request, &permit, out);
    }

    fn wait(&mut self, request: ParsedRequest, permit: Permit, wait: Wait) {
        let preparing = Preparation { request, permit, wait, since: Instant::now() };
        self.phase = RequestPhase::Preparing(Box::new(preparing));
    }

    pub(super) fn poll_queued(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let RequestPhase::Queued(queued) = &mut self.phase else { return };
        let Poll::Ready(admitted) = queued.queued.poll(context) else { return };
        let RequestPhase::Queued(queued) = mem::replace(&mut self.phase, RequestPhase::Refused) else {
            return;
        };
        let QueuedRequest { request, waiting, .. } = *queued;
        match (&admitted, waiting) {
            (Ok(_), Some(waiting)) => waiting.dispatched(),
            (Err(refusal), Some(waiting)) => waiting.evicted(refusal),
            (_, None) => {}
        }
        match admitted {
            Ok(permit) => self.prepare(request, permit, out),
            Err(refusal) => self.refuse(Some(request.labels), &refusal, out),
        }
    }

    /// Goes on with the tokens. If the tokens fail or do not come in time, the request goes on without them.
    pub(super) fn poll_preparing(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let RequestPhase::Preparing(preparing) = &mut self.phase else { return };
        let answer = match &mut preparing.wait {
            Wait::Tokens(answer) => answer.as_mut().poll(context).map(WaitResult::Tokens),
            Wait::Burst(seat) => seat.poll(context).map(WaitResult::Burst),
            Wait::Latency(answer) => answer.as_mut().poll(context).map(WaitResult::Latency),
        };
        let Poll::Ready(answer) = answer else { return };
        let RequestPhase::Preparing(preparing) = mem::replace(&mut self.phase, RequestPhase::Refused) else {
            return;
        };
        let Preparation { mut request, permit, since, .. } = *preparing;
        let took = since.elapsed();
        let work = match &answer {
            WaitResult::Tokens(_) => Work::Tokens,
            WaitResult::Burst(_) => Work::Burst,
            WaitResult::Latency(_) => Work::Prediction,
        };
        self.core.metrics.plugins.observe_duration(work, took);
        match answer {
            WaitResult::Tokens(answer) => self.with_tokens(request, permit, answer, out),
            WaitResult::Burst(endpoint) => {
                request.burst_endpoint = endpoint;
                self.predict_latency(request, permit, out);
            }
            WaitResult::Latency(answer) => self.with_predictions(request, &permit, (took, answer), out),
        }
        // Polls the next wait at once. Otherwise nothing would wake the stream for it.
        self.poll_preparing(context, out);
    }

    fn with_tokens(
        &mut self,
        mut request: ParsedRequest,
        permit: Permit,
        answer: Result<Result<Tokens, TokenError>, Elapsed>,
        out: &mut Outbox,
    ) {
        let outcome = match answer {
            Ok(Ok(tokens)) => {
                request.parsed.prompts = tokens.prompts;
                request.parsed.exact = true;
                if !tokens.media.is_empty() {
                    request.parsed.media = tokens.media;
                }
                request.tokens_held = Some(tokens.held);
                "answered"
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "Scheduling a request without its tokens.");
                "failed"
            }
            Err(_) => "late",
        };
        self.core.metrics.token_lookup(outcome);
        self.gather(request, permit, out);
    }

    fn with_predictions(
        &mut self,
        mut request: ParsedRequest,
        permit: &Permit,
        (took, answer): (Duration, Result<Vec<Prediction>, PredictError>),
        out: &mut Outbox,
    ) {
        let metrics = &self.core.metrics.latency;
        match answer {
            Ok(predictions) => {
                let slots = request.forecast.features.iter().map(|(slot, _)| *slot);
                request.forecast.predictions = slots.zip(predictions).collect();
                let name = self.core.scheduler.latency().map_or("", |settings| &settings.name);
                metrics.predicted_within(name, &request.labels, took);
                metrics.asked("answered");
            }
            Err(error) => {
                tracing::debug!(%error, "Scheduling a request without predictions.");
                metrics.asked(if matches!(error, PredictError::Late) { "late" } else { "failed" });
            }
        }
        self.send(request, permit, out);
    }
}
