//! One answer in the making.

use std::{sync::Arc, time::Instant};

use longboat_serving::{Event, Sampling, Token};
use tokio::sync::{mpsc, oneshot};

use crate::{
    cache::{Block, Hash},
    sample::Sampler,
    text::{Pieces, Stops, Tokenizer},
    transfer::{Handing, Imported},
};

/// One answer in the making.
pub(crate) struct Sequence {
    /// The prompt and what was generated.
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt: usize,
    /// The most tokens that may be generated.
    pub(crate) limit: usize,
    pub(crate) sampling: Sampling,
    pub(crate) sampler: Sampler,
    pub(crate) pieces: Pieces,
    pub(crate) stops: Stops,
    /// Which answer of its request this is.
    pub(crate) choice: usize,
    /// Has room for every event of the request.
    pub(crate) events: mpsc::Sender<Event>,
    /// Gets the number of cached tokens once the sequence runs.
    pub(crate) taken: Option<oneshot::Sender<usize>>,
    /// Blocks with the keys and values of the computed tokens.
    pub(crate) blocks: Vec<Block>,
    /// Tokens whose keys and values are stored.
    pub(crate) computed: usize,
    /// The hash of the last full block.
    pub(crate) hash: Option<Hash>,
    /// Who is told where the prompt's blocks are kept, where another engine goes on.
    pub(crate) handing: Option<Handing>,
    /// The prompt's blocks, where another engine has computed them.
    pub(crate) given: Option<Arc<Imported>>,
    pub(crate) arrived: Instant,
    pub(crate) last_token: Option<Instant>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finish(pub(crate) &'static str);

// === impl Sequence ===

impl Sequence {
    /// Tokens that are not computed yet; at least one.
    pub(crate) fn uncomputed(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Tokens that were generated.
    pub(crate) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// Chooses the next token by the model's weights, and tells what it adds. Gives the reason if the answer ends.
    pub(crate) fn advance(&mut self, tokenizer: &Tokenizer, weights: Vec<f32>) -> Option<Finish> {
        let must_go_on = self.sampling.ignore_eos || self.generated() < self.sampling.least;
        // An ending that must not come yet is not even chosen, but an ignored one may be.
        let forbidden: Vec<u32> = if self.generated() < self.sampling.least {
            tokenizer.end_tokens().collect()
        } else {
            Vec::new()
        };
        let chosen = self.sampler.choose(&self.sampling, weights, &forbidden);
        self.tokens.push(chosen.token);
        if tokenizer.ends(chosen.token) && !must_go_on {
            self.tell_rest();
            return Some(self.finish("stop", None));
        }
        let token = Token {
            text: self.pieces.push(tokenizer, chosen.token),
            logprob: chosen.logprob,
            top: chosen.top.into_iter().map(|(token, logprob)| (tokenizer.text(&[token]), logprob)).collect(),
        };
        if self.generated() < self.sampling.least {
            // A stop text that comes too early is part of the answer.
            self.tell(vec![token]);
        } else {
            let ending = self.stops.push(token);
            self.tell(ending.tokens);
            if ending.stop.is_some() {
                return Some(self.finish("stop", ending.stop));
            }
        }
        if self.generated() >= self.limit {
            self.tell_rest();
            return Some(self.finish("length", None));
        }
        None
    }

    fn tell_rest(&mut self) {
        let rest = self.stops.rest();
        self.tell(rest);
    }

    fn tell(&self, tokens: Vec<Token>) {
        for token in tokens {
            self.send(Event::Text { choice: self.choice, token });
        }
    }

    fn finish(&self, reason: &'static str, stop: Option<String>) -> Finish {
        self.send(Event::Finished { choice: self.choice, reason, stop });
        Finish(reason)
    }

    fn send(&self, event: Event) {
        // Who has gone away needs no events; there is room for all others.
        let _ = self.events.try_send(event);
    }
}
