//! Scorers rate a candidate from 0 to 1.

pub(crate) mod active_request;
mod cold;
pub(crate) mod context_length;
pub(crate) mod encoder_cache;
pub(crate) mod endpoint_attribute;
pub(crate) mod header_label;
pub(crate) mod kv_cache;
pub(crate) mod latency;
pub(crate) mod latency_observation;
pub(crate) mod load_aware;
pub(crate) mod lora_affinity;
pub(crate) mod no_hit_lru;
pub(crate) mod no_hit_requests;
pub(crate) mod precise_prefix;
pub(crate) mod prefix_cache;
pub(crate) mod queue;
pub(crate) mod session_affinity;
pub(crate) mod token_load;
pub(crate) mod topology_affinity;
