//! The pace of an engine: how long it needs for a prompt, for a token, and for a transfer.

use std::time::Duration;

/// The times of an engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Fixed part of the time to the first token.
    pub first_token: Duration,
    /// Additional time for each prompt token that is not in the prefix cache.
    pub prefill_per_token: Duration,
    /// Time between two tokens of one answer, if the answer is alone in the batch.
    pub between_tokens: Duration,
    /// Fixed part of the time for the transfer of a KV cache from another engine.
    pub transfer: Duration,
    /// Additional time of the transfer for each prompt token.
    pub transfer_per_token: Duration,
    /// The factor of all times but transfers if the batch is full. It grows with the number of running requests, from 1.
    pub factor_under_load: f64,
    /// The most tokens of one forward pass, if prompts are computed in chunks between the tokens of answers. `None`: prompts
    /// are computed side by side, and slow nothing else down.
    pub max_batched_tokens: Option<usize>,
}

/// All numbers of an engine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// The most requests in the batch.
    pub max_num_seqs: usize,
    /// The most requests that wait. Further ones are refused.
    pub max_waiting: usize,
    /// Tokens of a block.
    pub block_size: usize,
    /// Blocks of the KV cache.
    pub cache_blocks: usize,
    /// The most tokens of a prompt and its answer together (`--max-model-len`).
    pub max_model_len: usize,
    /// The times.
    pub timing: Timing,
}

/// The batch at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// The requests in the batch.
    pub running: usize,
    /// Those that generate tokens.
    pub decoding: usize,
    /// The most requests in the batch.
    pub max_num_seqs: usize,
}

// === impl Timing ===

impl Default for Timing {
    /// An engine that needs no time.
    fn default() -> Self {
        Self {
            first_token: Duration::ZERO,
            prefill_per_token: Duration::ZERO,
            between_tokens: Duration::ZERO,
            transfer: Duration::ZERO,
            transfer_per_token: Duration::ZERO,
            factor_under_load: 1.0,
            max_batched_tokens: None,
        }
    }
}

impl Timing {
    /// The times of a small model on one accelerator.
    pub fn realistic() -> Self {
        Self {
            first_token: Duration::from_millis(15),
            prefill_per_token: Duration::from_micros(60),
            between_tokens: Duration::from_millis(6),
            ..Self::default()
        }
    }

    /// Returns the time for the uncached tokens of a prompt, in an engine that does nothing else.
    pub fn prefill(&self, uncached: usize) -> Duration {
        self.first_token + self.prefill_per_token.saturating_mul(count(uncached))
    }

    /// Returns the time for receiving a prompt's KV cache from another engine.
    pub fn transfer(&self, tokens: usize) -> Duration {
        self.transfer + self.transfer_per_token.saturating_mul(count(tokens))
    }

    /// Returns how many tokens of a prompt the next forward pass computes, of `left` ones. Answers come first, and a prompt
    /// always gets one token, so that it ends.
    pub fn chunk(&self, batch: Batch, left: usize) -> usize {
        let room = self.max_batched_tokens.map_or(left, |most| most.saturating_sub(batch.decoding).max(1));
        room.min(left)
    }

    /// Returns the time of one forward pass: a token for each answer, and `chunk` tokens of a prompt.
    pub fn step(&self, batch: Batch, chunk: usize) -> Duration {
        // All answers get a token from one pass. Their number counts only in the slowdown.
        let answers = if batch.decoding > 0 { self.between_tokens } else { Duration::ZERO };
        let time = answers + self.prefill_per_token.saturating_mul(count(chunk));
        time.mul_f64(self.slowdown(batch))
    }

    /// Returns the factor by which the requests in the batch slow each other down. A request alone runs at the configured
    /// speed.
    #[expect(clippy::cast_precision_loss, reason = "request counts are far below 2^52")]
    pub fn slowdown(&self, batch: Batch) -> f64 {
        let others = batch.running.saturating_sub(1) as f64;
        // An engine with one place has no others: 0 / 0 would be NaN.
        let most = batch.max_num_seqs.saturating_sub(1).max(1) as f64;
        1.0 + (self.factor_under_load - 1.0) * (others / most).min(1.0)
    }
}

fn count(tokens: usize) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: Batch = Batch { running: 5, decoding: 4, max_num_seqs: 5 };

    #[test]
    fn a_full_batch_is_slower_by_the_factor() {
        let timing = Timing { factor_under_load: 3.0, ..Timing::realistic() };
        assert_eq!(timing.step(BATCH, 0), Duration::from_millis(18));
        assert_eq!(timing.step(Batch { running: 1, ..BATCH }, 0), Duration::from_millis(6));
    }

    #[test]
    fn a_chunk_leaves_room_for_answers_and_lengthens_their_step() {
        let timing = Timing { max_batched_tokens: Some(104), ..Timing::realistic() };
        assert_eq!(timing.chunk(BATCH, 1000), 100);
        assert_eq!(timing.chunk(BATCH, 7), 7);
        assert_eq!(timing.step(BATCH, 100), Duration::from_millis(12));
        let crowded = Timing { max_batched_tokens: Some(2), ..timing };
        assert_eq!(crowded.chunk(BATCH, 1000), 1);
    }
}
