//! The model of an inference engine, without a clock and without a network.
//!
//! Two programs share it. The simulator (`longboat sim`) serves requests and sleeps for the times of [`Timing`]. `longboat
//! simulate` runs an [`Engine`] for each endpoint in virtual time. Both take memory from the same [`KvCache`], and both read
//! the same numbers, so a prediction and a run of the simulator differ only by what is not modelled: sockets and scheduling.

mod cache;
mod engine;
pub mod split_mix;
mod timing;

pub use cache::{Allocation, BlockHash, KvCache, RequestBlocks, block_hashes, further_block_hashes};
pub use engine::{Engine, EnqueueError, Job, Load, Output};
pub use timing::{Batch, Parameters, Timing};
