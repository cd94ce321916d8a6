//! What is read of a body, and why a body is refused.

use std::ops::Range;

use longboat_scheduler::{Media, MediaEstimates, Prompt, VideoProperties};

use super::protobuf::ProtobufError;

/// The longest name of a model. The limit exists because metrics and decisions keep names longer than the request.
pub(super) const MAX_MODEL: usize = 4096;

/// The most messages, prompts and parts of a message. Each needs far more memory than its bytes in the body.
pub(super) const MAX_ELEMENTS: usize = 1 << 16;

/// How a body is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// The bytes of each text that are kept.
    pub(crate) limit: usize,
    /// What images and videos count as in a prompt.
    pub(crate) estimates: MediaEstimates,
    /// What the request says about its videos.
    pub(crate) video: VideoProperties,
}

impl Default for Reading {
    /// Keeps everything.
    fn default() -> Self {
        Self { limit: usize::MAX, estimates: MediaEstimates::default(), video: VideoProperties::default() }
    }
}

/// The result of reading a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ParsedBody {
    /// The requested model. Empty if bodies are not read.
    pub(crate) model: String,
    /// The range of the model's JSON value in the body.
    pub(crate) model_at: Range<usize>,
    /// The range of the priority's JSON value in the body. `None` if the body has none.
    pub(crate) priority_at: Option<Range<usize>>,
    /// Whether the client asks for a streamed response.
    pub(crate) stream: bool,
    /// The prompts, for prefix hashing.
    pub(crate) prompts: Vec<Prompt>,
    /// Whether the prompts are the model's own tokens. Otherwise they are text.
    pub(crate) exact: bool,
    pub(crate) cache_salt: String,
    pub(crate) multimodal: bool,
    /// The most tokens that the client lets the server generate, if the body says so.
    pub(crate) max_output_tokens: Option<u64>,
    /// The request's images, audio and videos. Empty if no plugin uses them.
    pub(crate) media: Vec<Media>,
}

/// Why a body is refused. Clients see the messages, so they have the words of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("error unmarshaling request bodyMap: {0}")]
    Json(String),
    #[error("invalid {0} request: must have {1} field")]
    Field(&'static str, &'static str),
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    #[error("{0}")]
    Grpc(&'static str),
    #[error("model not found in request body")]
    NoModel,
    #[error("the name of the model has {0} bytes; expected at most {MAX_MODEL}")]
    LongModel(usize),
    #[error("a list has more than {MAX_ELEMENTS} messages, prompts or parts")]
    Elements,
}
