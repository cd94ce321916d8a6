//! What a block is known by here. Engines hash their blocks in ways of their own; so the same key is computed from the tokens
//! of an event and from those of a request.

use xxhash_rust::xxh64::{Xxh64, xxh64};

use crate::event::ExtraKey;

/// Stands for the tokens of a block, for everything before them, and for the model, adapter and salt.
pub type BlockKey = u64;

/// The keys of consecutive blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain(BlockKey);

// === impl Chain ===

impl Chain {
    /// The start of a prompt for a model or an adapter.
    pub fn start(seed: &str, model: &str) -> Self {
        Self(xxh64(model.as_bytes(), xxh64(seed.as_bytes(), 0)))
    }

    /// What follows this block.
    pub fn after(key: BlockKey) -> Self {
        Self(key)
    }

    /// The key of the next block: its tokens, and what else tells it from others.
    pub fn next(&mut self, tokens: &[u32], extra: &[ExtraKey]) -> BlockKey {
        let mut hash = Xxh64::new(self.0);
        for token in tokens {
            hash.update(&token.to_le_bytes());
        }
        self.finish(hash, tokens.len(), extra)
    }

    fn finish(&mut self, mut hash: Xxh64, tokens: usize, extra: &[ExtraKey]) -> BlockKey {
        // Lengths keep apart what would be the same bytes.
        hash.update(&(tokens as u64).to_le_bytes());
        for key in extra {
            let (kind, bytes) = match key {
                ExtraKey::Text(text) => (0, text.as_bytes()),
                ExtraKey::Other(bytes) => (1, bytes.as_slice()),
            };
            hash.update(&[kind]);
            hash.update(&(bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
        self.0 = hash.digest();
        self.0
    }

    /// The keys of a prompt's full blocks. The prompt is the little-endian bytes of its tokens. The salt is part of the first
    /// block, and so of all.
    pub fn prompt(mut self, prompt: &[u8], block_tokens: usize, salt: &str) -> Vec<BlockKey> {
        let salt = if salt.is_empty() { Vec::new() } else { vec![ExtraKey::Text(salt.to_owned())] };
        let size = block_tokens.max(1);
        let blocks = prompt.chunks_exact(size.saturating_mul(4)).enumerate();
        blocks
            .map(|(place, block)| {
                let mut hash = Xxh64::new(self.0);
                hash.update(block);
                self.finish(hash, size, if place == 0 { &salt } else { &[] })
            })
            .collect()
    }
}
