//! What is measured of one request.

/// The times of one request, in nanoseconds of virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestTimes {
    /// When it arrived.
    pub arrived: u64,
    /// When the picker sent it.
    pub sent: u64,
    /// When the engine that computes the prompt began with it.
    pub started: u64,
    /// Whether it waited there for memory.
    pub waited_for_memory: bool,
    /// When the first token came.
    pub first_token: u64,
    /// When the last token came.
    pub finished: u64,
    /// The tokens of its answer.
    pub output_tokens: usize,
    /// The tokens of its prompt.
    pub prompt_tokens: usize,
    /// Those that were in a cache.
    pub cached_tokens: usize,
}
