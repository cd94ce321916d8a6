//! The data about a request that the scheduler needs.

use crate::{endpoint::Slot, media::Media};

/// Reads request headers by lower-case name.
pub trait HeaderLookup {
    /// Returns the first value of this header, if it is text.
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

/// One prompt as the little-endian bytes of its 32-bit tokens. For text, each four bytes of UTF-8 count as one token. A last
/// token with fewer bytes counts as if padded with zeros.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The tokens from the start, up to the length by which prefixes are compared.
    pub bytes: Vec<u8>,
    /// The number of further bytes that are not in `bytes`.
    pub cut: usize,
}

impl From<Vec<u8>> for Prompt {
    /// Creates a prompt of which all bytes are kept.
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, cut: 0 }
    }
}

impl Prompt {
    /// Returns the number of tokens.
    pub fn tokens(&self) -> usize {
        (self.bytes.len() + self.cut).div_ceil(4)
    }
}

/// A prediction for a request on an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prediction {
    /// Milliseconds until the first token.
    pub ttft_ms: f64,
    /// Milliseconds for each further token.
    pub tpot_ms: f64,
}

/// A parsed inference request.
pub struct Request<'a> {
    /// The request's id, for messages about it.
    pub id: &'a str,
    /// The model of the request to the server, after any rewrite.
    pub model: &'a str,
    /// Separates the prefix caches of different tenants. Empty if not given.
    pub cache_salt: &'a str,
    /// Its prompts: one for chat, several for a list of completions.
    pub prompts: &'a [Prompt],
    /// Whether the prompts are the model's own tokens. Otherwise they are text.
    pub exact: bool,
    /// Whether it has images, audio or video.
    pub multimodal: bool,
    /// Its priority, from its objective. Requests below 0 may be dropped.
    pub priority: i32,
    /// The predicted latency on each endpoint, if a predictor answered.
    pub predictions: &'a [(Slot, Prediction)],
    /// The endpoint that was chosen together with other requests with the same prompt.
    pub burst_endpoint: Option<Slot>,
    /// The request's images, audio and videos, without duplicates. Empty if no plugin uses them.
    pub media: &'a [Media],
    /// The most tokens that the client lets the server generate, if it has set a limit.
    pub max_output_tokens: Option<u64>,
    /// Its headers.
    pub headers: &'a dyn HeaderLookup,
}

impl Request<'_> {
    /// The number of tokens of all prompts. An estimate if the prompts are text.
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
