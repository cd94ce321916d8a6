//! The prompts of conversations that go on. A turn begins with the turn before it, so most of its tokens and hashes are known.

use std::sync::Arc;

use ahash::AHashMap;
use longboat_engine_model::{BlockHash, further_block_hashes};

use crate::trace::{Segment, TracePrompt, TraceRequest};

/// The memory for prompts that were used last, in bytes. As much again is used for those that were used before.
const MAX_RECENT_BYTES: usize = 16 << 20;
/// Shorter prompts are made as fast as they are found.
const MIN_TOKENS: usize = 2048;

/// The tokens of a prompt, or its text, and the hashes of its blocks as far as they are known.
#[derive(Debug, Default)]
pub(super) struct PromptTokens {
    pub(super) bytes: Vec<u8>,
    hashes: Arc<[BlockHash]>,
    block_size: usize,
}

/// The last prompt of a conversation.
#[derive(Debug, Default)]
struct Turn {
    segments: Vec<Segment>,
    tokens: PromptTokens,
}

/// The last prompts of conversations, by session.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    recent: AHashMap<String, Turn>,
    recent_bytes: usize,
    /// What was recent before.
    older: AHashMap<String, Turn>,
}

// === impl PromptTokens ===

impl PromptTokens {
    /// Returns the hashes of the full blocks of this size.
    pub(super) fn hashes(&mut self, block_size: usize) -> Arc<[BlockHash]> {
        let known: &[BlockHash] = if self.block_size == block_size { &self.hashes } else { &[] };
        self.hashes = further_block_hashes(known, &self.bytes, block_size);
        self.block_size = block_size;
        Arc::clone(&self.hashes)
    }
}

// === impl Turn ===

impl Turn {
    fn size(&self) -> usize {
        self.tokens.bytes.capacity()
            + size_of_val(&*self.tokens.hashes)
            + self.segments.capacity() * size_of::<Segment>()
    }
}

// === impl Conversations ===

impl Conversations {
    /// Returns the tokens of the prompt of a request, which has this number.
    pub(super) fn tokens(&mut self, request: &TraceRequest, number: u64) -> PromptTokens {
        let known = self.take(request).unwrap_or_default();
        let bytes = request.prompt.bytes(number, known.segments.len(), known.tokens.bytes);
        PromptTokens { bytes, ..known.tokens }
    }

    /// Takes the turn before a request, if the request begins with it.
    fn take(&mut self, request: &TraceRequest) -> Option<Turn> {
        let (Some(session), TracePrompt::Segments(segments)) = (&request.session, &request.prompt) else {
            return None;
        };
        let turn = match self.recent.remove(session) {
            Some(turn) => {
                self.recent_bytes -= turn.size();
                turn
            }
            None => self.older.remove(session)?,
        };
        segments.starts_with(&turn.segments).then_some(turn)
    }

    /// Keeps the prompt of a request for the next turn of its conversation.
    pub(super) fn keep(&mut self, session: Option<String>, prompt: TracePrompt, tokens: PromptTokens) {
        let (Some(session), TracePrompt::Segments(segments)) = (session, prompt) else { return };
        // A part that no other prompt has is another one in the next turn, even if the segments are equal.
        if segments.iter().any(Segment::is_unshared) || tokens.bytes.len() < MIN_TOKENS * 4 {
            return;
        }
        let turn = Turn { segments, tokens };
        if self.recent_bytes + turn.size() > MAX_RECENT_BYTES {
            // A conversation that goes on moves to the recent ones. What is dropped has not been used since the last exchange.
            self.older = std::mem::take(&mut self.recent);
            self.recent_bytes = 0;
        }
        self.recent_bytes += turn.size();
        if let Some(replaced) = self.recent.insert(session, turn) {
            self.recent_bytes -= replaced.size();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longboat_engine_model::block_hashes;

    use super::*;

    fn request(session: &str, segments: &[(u64, u64)]) -> TraceRequest {
        let segments = segments.iter().map(|(id, tokens)| Segment(*id, *tokens)).collect();
        let prompt = TracePrompt::Segments(segments);
        TraceRequest { session: Some(session.to_owned()), ..TraceRequest::new(Duration::ZERO, prompt, 1) }
    }

    #[test]
    fn prompts_are_the_same_whatever_is_known_of_them() {
        let unshared = u64::MAX;
        let mut conversations = Conversations::default();
        for (number, (session, block_size, segments)) in [
            ("a", 16, vec![(1, 3000), (2, 30)]),
            ("b", 16, vec![(1, 3000), (3, 7)]),
            ("a", 16, vec![(1, 3000), (2, 30), (4, 5), (5, 60)]),
            // Another size of blocks, a turn that does not go on, and one that is a repetition.
            ("a", 32, vec![(1, 3000), (2, 30), (4, 5), (5, 60), (6, 100)]),
            ("a", 32, vec![(1, 3000), (2, 31), (4, 5)]),
            ("a", 32, vec![(1, 3000), (2, 31), (4, 5)]),
            ("c", 16, vec![(1, 3000), (unshared, 40)]),
            ("c", 16, vec![(1, 3000), (unshared, 40), (7, 20)]),
            ("b", 16, vec![(1, 3000), (3, 7), (unshared, 9)]),
            ("d", 16, vec![(1, 2047)]),
        ]
        .into_iter()
        .enumerate()
        {
            let (number, request) = (number as u64, request(session, &segments));
            let mut tokens = conversations.tokens(&request, number);
            let expected = request.prompt.bytes(number, 0, Vec::new());
            assert_eq!(tokens.bytes, expected, "{number}");
            assert_eq!(tokens.hashes(block_size), block_hashes(&expected, block_size), "{number}");
            conversations.keep(request.session, request.prompt, tokens);
        }
        assert_eq!(conversations.recent.len(), 1);
    }

    #[test]
    fn recent_conversations_have_limits() {
        let mut conversations = Conversations::default();
        let turn = |number: u64| request(&number.to_string(), &[(number, 1_000_000)]);
        for number in 0..40 {
            let TraceRequest { session, prompt, .. } = turn(number);
            let tokens = PromptTokens { bytes: vec![0; 4_000_000], ..PromptTokens::default() };
            conversations.keep(session, prompt, tokens);
            assert!(conversations.recent_bytes <= MAX_RECENT_BYTES);
            let retained_bytes = conversations.recent.values().map(Turn::size).sum::<usize>();
            assert_eq!(retained_bytes, conversations.recent_bytes);
        }
        assert!(conversations.recent.len() + conversations.older.len() <= 8);
        assert!(conversations.take(&turn(39)).is_some() && conversations.take(&turn(0)).is_none());
        assert!(conversations.take(&turn(36)).is_some());
    }
}
