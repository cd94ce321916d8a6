//! The plugin types of the picker that several crates name. The scheduler's registry has all types.

/// Remembers which prompts were sent to which endpoint.
pub const PREFIX_PRODUCER: &str = "approx-prefix-cache-producer";
/// Learns from the engines' events which endpoint holds which prompt.
pub const PRECISE_PRODUCER: &str = "precise-prefix-cache-producer";
/// Scores endpoints by what a prefix producer knows.
pub const PREFIX_SCORER: &str = "prefix-cache-scorer";
/// The precise producer and its scorer in one, as before router 0.9.
pub const PRECISE_SCORER: &str = "precise-prefix-cache-scorer";
/// Asks a tokenizer for the tokens of a prompt.
pub const TOKEN_PRODUCER: &str = "token-producer";
/// The plugins that need a tokenizer.
pub const TOKENIZER_USERS: [&str; 2] = [TOKEN_PRODUCER, PRECISE_SCORER];
/// Prefers endpoints that have loaded the adapter.
pub const LORA_SCORER: &str = "lora-affinity-scorer";
/// Asks a predictor of latencies.
pub const LATENCY_PRODUCER: &str = "predicted-latency-producer";
/// Remembers which images, audio and videos were sent to which endpoint.
pub const ENCODER_CACHE_PRODUCER: &str = "mm-embeddings-cache-producer";
/// Names the metrics of each engine.
pub const METRICS_EXTRACTOR: &str = "core-metrics-extractor";
/// The name of [`METRICS_EXTRACTOR`] before router 0.8.
pub const OLD_METRICS_EXTRACTOR: &str = "model-server-protocol-metrics";
/// Runs decode, and prefill or encode elsewhere.
pub const DISAGG_HANDLER: &str = "disagg-profile-handler";
/// The former handler for decode and prefill.
pub const PD_HANDLER: &str = "pd-profile-handler";
/// Names the other endpoints to the sidecar.
pub const DISAGG_HEADERS_HANDLER: &str = "disagg-headers-handler";
/// The former name of [`DISAGG_HEADERS_HANDLER`].
pub const PREFILL_HEADER_HANDLER: &str = "prefill-header-handler";
