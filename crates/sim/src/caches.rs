//! The KV caches of other engines that a request can use.

use longboat_serving::{Job, Part};

use crate::{args::Args, engine::storage::Storage, handover::source};

/// The KV caches of other engines that a request can use.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CacheSources<'a> {
    /// Whether the prompt's KV cache was received from the engine that the request names.
    pub(crate) is_received: bool,
    /// The storage in which blocks of the prompt are looked up. `None` if there is no shared storage, or if its blocks are
    /// lost by a fault.
    pub(crate) storage: Option<&'a Storage>,
}

/// What they have of a prompt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Caches {
    /// Whether its KV cache was received from the engine that the request names.
    pub(crate) is_received: bool,
    /// The number of its leading blocks that are in the storage, if there is one.
    pub(crate) stored: Option<usize>,
}

// === impl CacheSources ===

impl<'a> CacheSources<'a> {
    /// Returns the caches for this request. An injected fault may remove all of them.
    pub(crate) fn of(job: &Job, args: &'a Args) -> Self {
        if args.faults.lost.occurs() {
            return Self::default();
        }
        let is_received = job.part == Part::Decode || source(job).is_some();
        Self { is_received, storage: args.storage.as_ref() }
    }
}
