//! Metrics of images, sounds and videos whose embeddings are computed.

use longboat_metrics::metrics;
use prometheus_client::metrics::counter::Counter;

metrics! {
    /// The series of a multimodal model.
    pub struct Encodings {
        /// Items that were looked up.
        pub queried: Counter => "vllm:mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items";
        /// Items whose embeddings were already in the cache.
        pub found: Counter => "vllm:mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items";
        // vLLM counts neither of the next two. Without them, it would be unknown which engine encoded an item.
        /// Items that this engine encoded.
        pub computed: Counter => "sim:items_encoded", "Items encoded by this engine";
        /// Items whose embeddings came from an encoder.
        pub received: Counter => "sim:items_received", "Items whose embeddings came from an encoder";
    }
}
