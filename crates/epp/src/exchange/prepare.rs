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

use super::{Exchange, Phase, Understood};
use crate::{
    admission::Permit,
    answer::Refusal,
    burst::Seat,
    latency::PredictError,
    metrics::Work,
    tokens::{Answer, Question, TokenError, Tokens},
};

/// An admitted request that waits for data that the scheduler needs.
pub(super) struct Preparing {
    understood: Understood,
    permit: Permit,
    question: Asked,
    since: Instant,
}

/// The thing that a request waits for.
enum Asked {
    /// The tokens of its prompt.
    Tokens(Pin<Box<Timeout<Answer>>>),
    /// Other requests with the same prompt.
    Burst(Seat),
    /// Its predicted latency.
    Latency(BoxFuture<'static, Result<Vec<Prediction>, PredictError>>),
}

/// The result of the wait.
enum Answered {
    Tokens(Result<Result<Tokens, TokenError>, Elapsed>),
    Burst(Option<Slot>),
    Latency(Result<Vec<Prediction>, PredictError>),
}

impl Exchange {
    /// Gets the data that the scheduler needs about an admitted request, then sends the request on.
    pub(super) fn prepare(
        &mut self,
        understood: Understood,
        permit: Permit,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let question = Question {
            api: understood.api,
            parsed: &understood.parsed,
            target: &understood.target,
            body: &understood.body,
            bodies: &self.core.bodies,
        };
        let asked = self.core.tokens.as_ref().and_then(|source| source.ask(&question));
        let Some(lookup) = asked else { return self.gather(understood, permit, out) };
        let answer = Box::pin(tokio::time::timeout(lookup.patience, lookup.answer));
        self.wait(understood, permit, Asked::Tokens(answer));
        Ok(())
    }

    /// Waits for other requests with the same prompt, if bursts are configured. A request without a prompt does not wait.
    fn gather(&mut self, understood: Understood, permit: Permit, out: &mut Outbox) -> Result<(), Refusal> {
        let Some(bursts) = &self.core.bursts else { return self.foresee(understood, permit, out) };
        let blocks = self.blocks(&understood, &bursts.settings);
        if blocks.is_empty() {
            return self.foresee(understood, permit, out);
        }
        let Some(seat) = bursts.join(blocks, &self.candidates(&understood.pending)) else {
            tracing::debug!(
                "Too many requests arrived at the same time; scheduling this one without the others."
            );
            return self.foresee(understood, permit, out);
        };
        self.wait(understood, permit, Asked::Burst(seat));
        Ok(())
    }

    /// Asks for the predicted latency on each endpoint, if a predictor is configured.
    fn foresee(
        &mut self,
        mut understood: Understood,
        permit: Permit,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        if let (Some(predictor), Some(settings)) = (&self.core.predictor, self.core.scheduler.latency()) {
            understood.forecast.features = self.features(&understood);
            let features = &understood.forecast.features;
            if settings.predict && !features.is_empty() && predictor.may_ask() {
                let features = features.iter().map(|(_, features)| features.clone()).collect();
                let predictor = Arc::clone(predictor);
                let answer = async move { predictor.predict(features).await };
                self.wait(understood, permit, Asked::Latency(Box::pin(answer)));
                return Ok(());
            }
        }
        self.send(understood, &permit, out)
    }

    fn wait(&mut self, understood: Understood, permit: Permit, question: Asked) {
        let preparing = Preparing { understood, permit, question, since: Instant::now() };
        self.phase = Phase::Preparing(Box::new(preparing));
    }

    pub(super) fn poll_queued(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let Phase::Queued(waiting) = &mut self.phase else { return };
        let Poll::Ready(admitted) = waiting.1.poll(context) else { return };
        let Phase::Queued(waiting) = mem::replace(&mut self.phase, Phase::Refused) else { return };
        let (understood, _, counted) = *waiting;
        match (&admitted, counted) {
            (Ok(_), Some(counted)) => counted.dispatched(),
            (Err(refusal), Some(counted)) => counted.evicted(refusal),
            (_, None) => {}
        }
        let prepared = admitted.and_then(|permit| self.prepare(understood, permit, out));
        if let Err(refusal) = prepared {
            self.refuse(&refusal, out);
        }
    }

    /// Goes on with the tokens. If the tokens fail or do not come in time, the request goes on without them.
    pub(super) fn poll_preparing(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let Phase::Preparing(preparing) = &mut self.phase else { return };
        let answer = match &mut preparing.question {
            Asked::Tokens(answer) => answer.as_mut().poll(context).map(Answered::Tokens),
            Asked::Burst(seat) => seat.poll(context).map(Answered::Burst),
            Asked::Latency(answer) => answer.as_mut().poll(context).map(Answered::Latency),
        };
        let Poll::Ready(answer) = answer else { return };
        let Phase::Preparing(preparing) = mem::replace(&mut self.phase, Phase::Refused) else { return };
        let Preparing { mut understood, permit, since, .. } = *preparing;
        let took = since.elapsed();
        let work = match &answer {
            Answered::Tokens(_) => Work::Tokens,
            Answered::Burst(_) => Work::Burst,
            Answered::Latency(_) => Work::Prediction,
        };
        self.core.metrics.plugins.took(work, took);
        let sent = match answer {
            Answered::Tokens(answer) => self.with_tokens(understood, permit, answer, out),
            Answered::Burst(together) => {
                understood.together = together;
                self.foresee(understood, permit, out)
            }
            Answered::Latency(answer) => self.with_predictions(understood, &permit, (took, answer), out),
        };
        if let Err(refusal) = sent {
            self.refuse(&refusal, out);
        } else if matches!(self.phase, Phase::Preparing(_)) {
            // Polls the next wait at once. Otherwise nothing would wake the stream for it.
            self.poll_preparing(context, out);
        }
    }

    fn with_tokens(
        &mut self,
        mut understood: Understood,
        permit: Permit,
        answer: Result<Result<Tokens, TokenError>, Elapsed>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let outcome = match answer {
            Ok(Ok(tokens)) => {
                understood.parsed.prompts = tokens.prompts;
                understood.parsed.exact = true;
                if !tokens.media.is_empty() {
                    understood.parsed.media = tokens.media;
                }
                understood.tokens_held = Some(tokens.held);
                "answered"
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "Scheduling a request without its tokens.");
                "failed"
            }
            Err(_) => "late",
        };
        self.core.metrics.token_lookup(outcome);
        self.gather(understood, permit, out)
    }

    fn with_predictions(
        &mut self,
        mut understood: Understood,
        permit: &Permit,
        (took, answer): (Duration, Result<Vec<Prediction>, PredictError>),
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let metrics = &self.core.metrics.latency;
        match answer {
            Ok(predictions) => {
                let slots = understood.forecast.features.iter().map(|(slot, _)| *slot);
                understood.forecast.predictions = slots.zip(predictions).collect();
                let name = self.core.scheduler.latency().map_or("", |settings| &settings.name);
                metrics.predicted_within(name, &understood.labels, took);
                metrics.asked("answered");
            }
            Err(error) => {
                tracing::debug!(%error, "Scheduling a request without predictions.");
                metrics.asked(if matches!(error, PredictError::Late) { "late" } else { "failed" });
            }
        }
        self.send(understood, permit, out)
    }
}
