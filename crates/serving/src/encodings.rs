//! Metrics of images, sounds and videos whose embeddings are computed.

use prometheus_client::{metrics::counter::Counter, registry::Registry};

/// The series of a multimodal model.
pub struct Encodings {
    /// Items that were looked up.
    pub queried: Counter,
    /// Items whose embeddings were already in the cache.
    pub found: Counter,
    /// Items that this engine encoded.
    pub computed: Counter,
    /// Items whose embeddings came from an encoder.
    pub received: Counter,
}

// === impl Encodings ===

impl Encodings {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let encodings = Self {
            queried: Counter::default(),
            found: Counter::default(),
            computed: Counter::default(),
            received: Counter::default(),
        };
        for (name, help, counter) in [
            ("vllm:mm_cache_queries", "Items looked up in the multi-modal cache", &encodings.queried),
            ("vllm:mm_cache_hits", "Items found in the multi-modal cache", &encodings.found),
            // vLLM counts neither. Without these two, it would be unknown which engine encoded an item.
            ("sim:items_encoded", "Items encoded by this engine", &encodings.computed),
            ("sim:items_received", "Items whose embeddings came from an encoder", &encodings.received),
        ] {
            registry.register(name, help, counter.clone());
        }
        encodings
    }
}
