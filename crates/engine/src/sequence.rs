//! One answer that is being generated.

use std::{sync::Arc, time::Instant};

use longboat_serving::{Event, Sampling, Stop, Token};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::{
    cache::{Block, Hash},
    gauges::SequenceGauge,
    lora::AdapterLease,
    sample::{BadWords, SampledToken, Sampler, restrict_to},
    shape::Form,
    text::{AnswerPart, Calls, Pieces, Stops, Tokenizer},
    transfer::{ImportedBlocks, PrefillHandoff},
};

/// One answer that is being generated.
pub(crate) struct Sequence {
    /// The tokens of the prompt and of the answer so far.
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt: usize,
    /// The most tokens to generate.
    pub(crate) limit: usize,
    pub(crate) sampling: Arc<Sampling>,
    pub(crate) bad_words: BadWords,
    pub(crate) sampler: Sampler,
    pub(crate) pieces: Pieces,
    pub(crate) stops: Stops,
    /// The form that the answer has, if the request sets one.
    pub(crate) form: Option<SharedForm>,
    /// Reads calls of tools, where the answer may have some.
    pub(crate) calls: Option<Calls>,
    /// The index of this answer in its request.
    pub(crate) choice: usize,
    /// The events of each token, which arrive together: the server tells the end of an answer with its last token. The channel has
    /// space for all of the request.
    pub(crate) events: mpsc::Sender<Vec<Event>>,
    /// The events that are not sent yet.
    pub(crate) unsent: Vec<Event>,
    /// Receives the number of cached tokens when the sequence starts.
    pub(crate) start_notice: Option<oneshot::Sender<usize>>,
    /// The adapter, if the request names one.
    pub(crate) adapter: Option<AdapterLease>,
    pub(crate) gauge: SequenceGauge,
    /// The blocks with the keys and values of the computed tokens.
    pub(crate) blocks: Vec<Block>,
    /// The number of tokens whose keys and values are stored.
    pub(crate) computed: usize,
    /// The hash of the last full block.
    pub(crate) hash: Option<Hash>,
    /// Leases the prompt's blocks to another engine, which continues the request.
    pub(crate) handoff: Option<PrefillHandoff>,
    /// The prompt's blocks, if another engine has computed them.
    pub(crate) imported: Option<Arc<ImportedBlocks>>,
    pub(crate) arrived: Instant,
    pub(crate) last_token: Option<Instant>,
}

/// KiB that the forms of all requests that run and wait may take.
pub(crate) const FORMS_KIB: usize = 256 << 10;

/// The form of an answer, and the memory that it takes together with those of the same request.
#[derive(Clone)]
pub(crate) struct SharedForm {
    form: Form,
    /// A permit for each KiB.
    memory: Arc<Mutex<OwnedSemaphorePermit>>,
}

// === impl SharedForm ===

impl SharedForm {
    /// Takes the memory of a form. The error says that all memory is in use.
    pub(crate) fn new(form: Form, memory: &Arc<Semaphore>) -> Result<Self, String> {
        let none = Arc::clone(memory).try_acquire_many_owned(0).map_err(|error| error.to_string())?;
        let shared = Self { form, memory: Arc::new(Mutex::new(none)) };
        shared.grow()?;
        Ok(shared)
    }

    /// Takes the memory that the form has allocated since the last call.
    fn grow(&self) -> Result<(), String> {
        let mut memory = self.memory.lock();
        let kib = (self.form.bytes() >> 10).saturating_sub(memory.num_permits());
        let further =
            Arc::clone(memory.semaphore()).try_acquire_many_owned(u32::try_from(kib).unwrap_or(u32::MAX));
        let full = |_| format!("The structured outputs of all requests use {FORMS_KIB} KiB");
        memory.merge(further.map_err(full)?);
        Ok(())
    }

    fn restrict(&mut self, weights: &mut [f32]) -> Result<(), String> {
        let restricted = self.form.restrict(weights).and_then(|()| self.grow());
        if restricted.is_err() {
            weights.fill(f32::NEG_INFINITY);
        }
        restricted
    }
}

// === impl Sequence ===

impl Sequence {
    /// The number of tokens that are not computed yet.
    pub(crate) fn uncomputed(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// The number of generated tokens.
    pub(crate) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Returns the parent hash of the first block.
    pub(crate) fn root(&self) -> Option<Hash> {
        Hash::root(self.adapter.as_ref().map(|lease| lease.adapter.number))
    }

    /// Records whether the sequence runs.
    pub(crate) fn set_running(&mut self, running: bool) {
        self.gauge.set_running(running);
        if let Some(lease) = &mut self.adapter {
            lease.set_running(running);
        }
    }

    /// Whether the client has disconnected.
    pub(crate) fn is_aborted(&self) -> bool {
        self.events.is_closed()
    }

    /// Chooses the next token by the logits, and sends the new text. Returns the reason if the answer ends.
    pub(crate) fn advance(&mut self, tokenizer: &Tokenizer, weights: Vec<f32>) -> Option<&'static str> {
        let finish = self.choose(tokenizer, weights);
        let events = std::mem::take(&mut self.unsent);
        if !events.is_empty() {
            // The send fails if the client has disconnected.
            let _ = self.events.try_send(events);
        }
        finish
    }

    fn choose(&mut self, tokenizer: &Tokenizer, mut weights: Vec<f32>) -> Option<&'static str> {
        let (mut is_stuck, mut reason) = (false, "stop");
        // As in vLLM, probabilities are those of the tokens that the form allows.
        if let Some(shared) = &mut self.form
            && let Err(error) = shared.restrict(&mut weights)
        {
            // A form may need more time or memory than it gets. Nobody should take half a form for a whole one.
            tracing::warn!(error, "An answer in a form ends early.");
            reason = "length";
        }
        let generated = &self.tokens[self.prompt..];
        let (sampling, bad_words) = (&self.sampling, &self.bad_words);
        // An end token that is not allowed yet is excluded. An ignored end token may be chosen.
        let forbidden: Vec<u32> = if generated.len() < self.sampling.min_tokens {
            tokenizer.end_tokens().chain(self.sampling.stop_tokens.iter().copied()).collect()
        } else {
            Vec::new()
        };
        let chosen = self.sampler.choose(sampling, weights, |weights| {
            if let Some(allowed) = &sampling.allowed {
                restrict_to(weights, allowed);
            }
            for token in forbidden.into_iter().chain(bad_words.completed_by(generated)) {
                if let Some(weight) = weights.get_mut(token as usize) {
                    *weight = f32::NEG_INFINITY;
                }
            }
            is_stuck = weights.iter().all(|weight| *weight == f32::NEG_INFINITY);
        });
        if is_stuck {
            self.send_rest();
            return Some(self.finish(reason, None));
        }
        self.tokens.push(chosen.token);
        let id = chosen.token;
        let mut token = self.token(tokenizer, chosen);
        let is_end = tokenizer.ends(id);
        let ends = is_end && !self.sampling.ignore_eos;
        if ends || self.sampling.stop_tokens.contains(&id) {
            self.send_rest();
            if !self.sampling.include_stop {
                token.text.clear();
            }
            self.send_tokens(vec![token]);
            return Some(self.finish("stop", (!ends).then_some(Stop::Token(id))));
        }
        if is_end {
            // The form is complete, and the answer goes on without one, as in vLLM.
            self.form = None;
        } else if let Some(shared) = &mut self.form {
            shared.form.consume(id);
        }
        if self.generated() < self.sampling.min_tokens {
            // A stop text that comes too early is a part of the answer.
            self.send_tokens(vec![token]);
        } else {
            let ending = self.stops.push(token);
            self.send_tokens(ending.tokens);
            if ending.stop.is_some() {
                return Some(self.finish("stop", ending.stop.map(Stop::Text)));
            }
        }
        if self.generated() >= self.limit {
            self.send_rest();
            return Some(self.finish("length", None));
        }
        None
    }

    /// Adds a token to the text.
    fn token(&mut self, tokenizer: &Tokenizer, chosen: SampledToken) -> Token {
        let decoded = |token| self.pieces.decoded(tokenizer, token);
        let top = chosen.top.into_iter().map(|(token, logprob)| (decoded(token), logprob)).collect();
        let decoded = self.sampling.logprobs.map(|_| decoded(chosen.token)).unwrap_or_default();
        let text = self.pieces.push(tokenizer, chosen.token, self.sampling.show_special_tokens);
        Token { text, decoded, logprob: chosen.logprob, top }
    }

    fn send_rest(&mut self) {
        let rest = self.stops.rest();
        self.send_tokens(rest);
    }

    fn send_tokens(&mut self, tokens: Vec<Token>) {
        for token in tokens {
            match &mut self.calls {
                None => self.send(Event::Text { choice: self.choice, token }),
                Some(calls) => {
                    let parts = calls.push(token);
                    self.send_parts(parts);
                }
            }
        }
    }

    fn send_parts(&mut self, parts: Vec<AnswerPart>) {
        let choice = self.choice;
        for part in parts {
            match part {
                AnswerPart::Text(token) => self.send(Event::Text { choice, token }),
                AnswerPart::Call { index, name, arguments } => {
                    self.send(Event::Call { choice, index, name });
                    self.send(Event::Arguments { choice, index, token: arguments });
                }
            }
        }
    }

    fn finish(&mut self, reason: &'static str, stop: Option<Stop>) -> &'static str {
        let rest = self.calls.as_mut().map(Calls::rest).unwrap_or_default();
        self.send_parts(rest);
        let sent = self.calls.as_ref().map_or(reason, |calls| calls.reason(reason));
        self.send(Event::Finished { choice: self.choice, reason: sent, stop });
        reason
    }

    fn send(&mut self, event: Event) {
        self.unsent.push(event);
    }
}

#[cfg(test)]
mod tests {
    use longboat_serving::Shape;

    use super::*;
    use crate::shape::Vocabulary;

    #[test]
    fn forms_take_memory_as_they_grow_until_there_is_none() {
        let letters = (0..=u8::MAX).map(|byte| vec![byte]).chain([Vec::new()]).collect();
        let vocabulary = Vocabulary::new(letters, [256].into_iter()).unwrap();
        let form = Form::new(&Shape::Regex("[ab]*a[ab]{9}c".into()), &vocabulary).unwrap();
        let memory = Arc::new(Semaphore::new((form.bytes() >> 10) + 8));
        let mut shared = SharedForm::new(form, &memory).unwrap();
        let sibling = shared.clone();
        let mut states = (0..1000_u32).map(|number| u32::from(b'a') + number.count_ones() % 2);
        let ended = states.find_map(|token| {
            let mut weights = [0.0; 257];
            let error = shared.restrict(&mut weights).err();
            shared.form.consume(token);
            error.map(|error| (error, weights.iter().all(|weight| *weight == f32::NEG_INFINITY)))
        });
        assert_eq!(
            ended,
            Some((format!("The structured outputs of all requests use {FORMS_KIB} KiB"), true))
        );
        drop(shared);
        assert!(memory.available_permits() < 8, "the other answer has them");
        drop(sibling);
        assert!(memory.available_permits() >= 8);
    }
}
