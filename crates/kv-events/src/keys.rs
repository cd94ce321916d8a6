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
    pub fn next(&mut self, tokens: impl Iterator<Item = u32>, extra: &[ExtraKey]) -> BlockKey {
        let mut hash = Xxh64::new(self.0);
        let mut count = 0_u64;
        for token in tokens {
            hash.update(&token.to_le_bytes());
            count += 1;
        }
        // Lengths keep apart what would be the same bytes.
        hash.update(&count.to_le_bytes());
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

    /// The keys of a prompt's full blocks. The salt is part of the first block, and so of all.
    pub fn prompt(mut self, tokens: &[u32], block_tokens: usize, salt: &str) -> Vec<BlockKey> {
        let salt = if salt.is_empty() { Vec::new() } else { vec![ExtraKey::Text(salt.to_owned())] };
        let blocks = tokens.chunks_exact(block_tokens.max(1)).enumerate();
        blocks
            .map(|(place, block)| self.next(block.iter().copied(), if place == 0 { &salt } else { &[] }))
            .collect()
    }
}
