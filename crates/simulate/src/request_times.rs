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

// === impl RequestTimes ===

impl RequestTimes {
    /// The time to the first token.
    pub(crate) fn ttft(&self) -> u64 {
        self.first_token - self.arrived
    }

    /// The part of it in the picker's queue.
    pub(crate) fn picker_queue(&self) -> u64 {
        self.sent - self.arrived
    }

    /// The part of it in the engine's queue.
    pub(crate) fn engine_queue(&self) -> u64 {
        self.started.saturating_sub(self.sent)
    }

    /// The rest: the computation of the prompt.
    pub(crate) fn prefill(&self) -> u64 {
        self.first_token.saturating_sub(self.started)
    }
}
