//! The tokens of a prompt, as the model's own tokenizer makes them. Somebody else has to be asked for them, so a request waits.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use longboat_accept::{Budget, Held};
use longboat_scheduler::{Media, Prompt};

use crate::{
    body::{Api, Parsed},
    companion::AnswerError,
};

mod render;

pub(crate) use render::{Renderer, parse};

/// Who knows the tokens of prompts.
pub(crate) trait TokenSource: Send + Sync + fmt::Debug {
    /// Asks for a request's tokens. It returns at once; the answer is waited for by whoever polls it. `None`: nothing is to
    /// be asked for this request, which goes on as it is.
    fn ask(&self, question: &Question<'_>) -> Option<Lookup>;
}

/// A request whose tokens are wanted.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) api: Api,
    pub(crate) parsed: &'a Parsed,
    /// The model that is asked for, after any rewrite.
    pub(crate) target: &'a str,
    /// Its body.
    pub(crate) body: &'a Bytes,
    /// Where the memory of the answer is counted.
    pub(crate) bodies: &'a Arc<Budget>,
}

/// A question under way.
pub(crate) struct Lookup {
    /// How long the answer may take. A request without one is scheduled without its tokens.
    pub(crate) patience: Duration,
    pub(crate) answer: Answer,
}

/// The tokens, or why they cannot be had. To drop it is to ask no more.
pub(crate) type Answer = BoxFuture<'static, Result<Tokens, TokenError>>;

/// The tokens of all prompts of a request.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) prompts: Vec<Prompt>,
    /// Its images, audio and videos, by the hashes that the tokenizer gave them.
    pub(crate) media: Vec<Media>,
    /// Their memory.
    pub(crate) held: Held,
}

/// Why there are no tokens.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("the tokenizer does not answer: {0}")]
    Companion(#[from] AnswerError),
    #[error("the tokenizer's answer cannot be read: {0}")]
    Malformed(String),
    #[error("there is no memory for the tokens: {0} bytes are all that bodies may take")]
    Full(usize),
}
