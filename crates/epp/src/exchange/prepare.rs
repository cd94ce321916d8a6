//! What a request waits for on its way: room in the pool, then the tokens of its prompt.
//!
//! Both are polled with the stream, so a request that waits holds up no other, and one that is given up waits no more.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use longboat_extproc::Outbox;
use tokio::time::Timeout;

use super::{Exchange, Phase, Understood};
use crate::{
    admission::Permit,
    answer::Refusal,
    tokens::{Answer, Question},
};

/// A request that was admitted, and waits for the tokens of its prompt.
pub(super) struct Preparing {
    understood: Understood,
    permit: Permit,
    answer: Pin<Box<Timeout<Answer>>>,
}

impl Exchange {
    /// Finds out what the scheduler should know about an admitted request, and sends it on.
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
        let Some(lookup) = asked else { return self.send(understood, &permit, out) };
        let answer = Box::pin(tokio::time::timeout(lookup.patience, lookup.answer));
        self.phase = Phase::Preparing(Box::new(Preparing { understood, permit, answer }));
        Ok(())
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

    /// Goes on with the tokens, and without them where they cannot be had or do not come in time: the request can be
    /// answered all the same.
    pub(super) fn poll_preparing(&mut self, context: &mut Context<'_>, out: &mut Outbox) {
        let Phase::Preparing(preparing) = &mut self.phase else { return };
        let Poll::Ready(answer) = preparing.answer.as_mut().poll(context) else { return };
        let Phase::Preparing(preparing) = mem::replace(&mut self.phase, Phase::Refused) else { return };
        let Preparing { mut understood, permit, .. } = *preparing;
        let outcome = match answer {
            Ok(Ok(tokens)) => {
                understood.parsed.prompts = tokens.prompts;
                understood.parsed.exact = true;
                understood.tokens_held = Some(tokens.held);
                "answered"
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "A request is scheduled without its tokens.");
                "failed"
            }
            Err(_) => "late",
        };
        self.core.metrics.token_lookup(outcome);
        if let Err(refusal) = self.send(understood, &permit, out) {
            self.refuse(&refusal, out);
        }
    }
}
