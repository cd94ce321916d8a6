//! What the scheduler needs to know about a request.

use crate::{endpoint::Slot, latency::Prediction, media::Media};

/// Reads request headers by lower-case name.
pub trait HeaderLookup {
    /// The first value of this header, if it is text.
    fn header(&self, name: &str) -> Option<&str>;
}

/// A request without headers.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHeaders;

impl HeaderLookup for NoHeaders {
    fn header(&self, _: &str) -> Option<&str> {
        None
    }
}

/// One prompt as the little-endian bytes of its 32-bit tokens. Text becomes pseudo-tokens of four bytes each, so it is
/// its own UTF-8 bytes; the last token may be short and counts as if padded with zeros.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The tokens, or as many from the first as prefixes are compared by.
    pub bytes: Vec<u8>,
    /// How many bytes more there are.
    pub cut: usize,
}

impl From<Vec<u8>> for Prompt {
    /// A prompt of which nothing is cut.
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, cut: 0 }
    }
}

impl Prompt {
    /// How many tokens these are.
    pub fn tokens(&self) -> usize {
        (self.bytes.len() + self.cut).div_ceil(4)
    }
}

/// A parsed inference request.
pub struct Request<'a> {
    /// For messages about it.
    pub id: &'a str,
    /// The model asked of the server, after any rewrite.
    pub model: &'a str,
    /// Separates prefix caches of different tenants; empty when not given.
    pub cache_salt: &'a str,
    /// Its prompts: one for chat, several for a list of completions.
    pub prompts: &'a [Prompt],
    /// Whether the prompts are the model's own tokens. Text stands for them otherwise.
    pub exact: bool,
    /// Whether it has images, audio or video.
    pub multimodal: bool,
    /// Its priority, from its objective. Requests below 0 may be dropped.
    pub priority: i32,
    /// How long it is predicted to take, on the endpoints that a predictor was asked about.
    pub predictions: &'a [(Slot, Prediction)],
    /// The endpoint that requests with its prompt were given, where they came at once.
    pub together: Option<Slot>,
    /// Its images, audio and videos, each once; nothing where no plugin looks at them.
    pub media: &'a [Media],
    /// Its headers.
    pub headers: &'a dyn HeaderLookup,
}

impl Request<'_> {
    /// Tokens of all prompts, estimated.
    pub fn tokens(&self) -> usize {
        self.prompts.iter().map(Prompt::tokens).sum()
    }
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("id", &self.id)
            .field("model", &self.model)
            .field("tokens", &self.tokens())
            .finish_non_exhaustive()
    }
}
