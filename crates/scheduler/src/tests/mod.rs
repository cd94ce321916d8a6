//! Configurations, and picks from them.

mod any_pool;
mod config;
mod encoder_cache;
mod herding;
mod latency;
mod observed_latency;
mod p2p;
mod pairing;
mod picks;
pub(crate) mod plugins;
mod policies;
mod precise;
mod published;
mod sessions;
mod versions;
