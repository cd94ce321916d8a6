//! The tokens of a prompt, as the model's tokenizer makes them. Another server makes the tokens, so a request waits for them.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use longboat_accept::{Budget, MemoryReservation};
use longboat_scheduler::{Media, Prompt};

use crate::{
    body::{Api, ParsedBody},
    companion::AnswerError,
};

mod render;

pub(crate) use render::{Renderer, parse};

/// A source of the tokens of prompts.
pub(crate) trait TokenSource: Send + Sync + fmt::Debug {
    /// Starts a lookup of a request's tokens and returns at once. The caller polls the answer. Returns `None` if this request
    /// needs no lookup, and the request goes on unchanged.
    fn ask(&self, question: &Question<'_>) -> Option<Lookup>;
}

/// A request whose tokens are wanted.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) api: Api,
    pub(crate) parsed: &'a ParsedBody,
    /// The request's body.
    pub(crate) body: &'a Bytes,
    /// The budget for the memory of the answer.
    pub(crate) bodies: &'a Arc<Budget>,
}

/// A lookup in progress.
pub(crate) struct Lookup {
    /// How long the answer may take. After that, the request is scheduled without tokens.
    pub(crate) patience: Duration,
    pub(crate) answer: Answer,
}

/// The tokens, or the error. Dropping it cancels the lookup.
pub(crate) type Answer = BoxFuture<'static, Result<Tokens, TokenError>>;

/// The tokens of all prompts of a request.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) prompts: Vec<Prompt>,
    /// The request's images, audio and videos, by the tokenizer's hashes.
    pub(crate) media: Vec<Media>,
    /// The memory of the prompts.
    pub(crate) held: MemoryReservation,
}

/// Why there are no tokens.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("the tokenizer does not answer: {0}")]
    Companion(#[from] AnswerError),
    #[error("cannot read the response of the tokenizer: {0}")]
    Malformed(String),
    #[error("no memory left for the tokens: request bodies may use at most {0} bytes")]
    Full(usize),
}
