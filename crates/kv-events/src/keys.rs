//! The keys of blocks. Each engine hashes its blocks in its own way, so the index computes the same key from the tokens of
//! an event and from those of a request.

use xxhash_rust::xxh64::{Xxh64, xxh64};

use crate::event::ExtraKey;

/// Identifies a block by its tokens, all tokens before it, and the model, adapter and salt.
pub type BlockKey = u64;

/// Computes the keys of consecutive blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain(BlockKey);

// === impl Chain ===

impl Chain {
    /// Starts a prompt for a model or an adapter.
    pub fn start(seed: &str, model: &str) -> Self {
        Self(xxh64(model.as_bytes(), xxh64(seed.as_bytes(), 0)))
    }

    /// Continues after this block.
    pub fn after(key: BlockKey) -> Self {
        Self(key)
    }

    /// Returns the key of the next block from its tokens and its extra keys.
    pub fn next(&mut self, tokens: &[u32], extra: &[ExtraKey]) -> BlockKey {
        let mut hash = Xxh64::new(self.0);
        for token in tokens {
            hash.update(&token.to_le_bytes());
        }
        self.finish(hash, tokens.len(), extra)
    }

    fn finish(&mut self, mut hash: Xxh64, tokens: usize, extra: &[ExtraKey]) -> BlockKey {
        // Lengths are hashed, too, so that different inputs never form the same bytes.
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

    /// Returns the keys of a prompt's full blocks. The prompt consists of the little-endian bytes of its tokens. The salt is
    /// part of the first block, and so affects all keys.
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
