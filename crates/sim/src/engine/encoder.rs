//! Embeddings of images, sounds and videos: found in the engine's cache, received from other engines, or encoded here.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use longboat_serving::{Encodings, Job, Part};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::storage::name;
use crate::{
    args::Args,
    media::{Side, Transfer},
};

/// The most embeddings in the cache. The oldest is evicted first.
const MAX_CACHED_EMBEDDINGS: usize = 1024;

/// The source of embeddings that were found in a shared folder.
const FOLDER: &str = "storage";

/// The part of an engine that handles embeddings.
pub(crate) struct Encoder {
    metrics: Encodings,
    cache: Mutex<EmbeddingCache>,
}

#[derive(Default)]
struct EmbeddingCache {
    order: VecDeque<u64>,
    known: HashSet<u64>,
}

/// The result for a request's items.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EncoderOutcome {
    /// The number of items that were encoded here.
    pub(crate) computed: u32,
    /// The engine that had the other items, if there is one.
    pub(crate) source: Option<String>,
}

// === impl EmbeddingCache ===

impl EmbeddingCache {
    /// Adds an item to the cache. Returns whether it was already there.
    fn insert(&mut self, id: u64) -> bool {
        if !self.known.insert(id) {
            return true;
        }
        self.order.push_back(id);
        if self.order.len() > MAX_CACHED_EMBEDDINGS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        false
    }
}

// === impl Encoder ===

impl Encoder {
    pub(crate) fn new(metrics: Encodings) -> Self {
        Self { metrics, cache: Mutex::default() }
    }

    /// Gets the embeddings of a request's items: from the cache, from an encoder, or by encoding them.
    pub(crate) async fn embed(&self, args: &Args, job: &Job) -> EncoderOutcome {
        let mut outcome = EncoderOutcome::default();
        let transfer = args.media.transfer.as_ref();
        for item in &job.items {
            self.metrics.queried.inc();
            // Inserted before the item is encoded, so that the same item later in the request counts as found.
            if self.cache.lock().insert(item.id) {
                self.metrics.found.inc();
            } else if let Some(source) = received(transfer, args, job, item.id).await {
                self.metrics.received.inc();
                outcome.source = Some(source);
            } else {
                self.metrics.computed.inc();
                outcome.computed += 1;
            }
            if let Some(Transfer { side: Side::Producer, storage: Some(storage) }) = transfer {
                storage.keep(Arc::from([item.id])).await;
            }
        }
        outcome
    }
}

/// Returns the engine or folder from which an item's embedding is received. Returns `None` if there is none.
async fn received(transfer: Option<&Transfer>, args: &Args, job: &Job, id: u64) -> Option<String> {
    let transfer = transfer.filter(|transfer| transfer.side == Side::Consumer)?;
    let source = match &transfer.storage {
        Some(storage) => (storage.prefix(Arc::from([id])).await == 1).then(|| FOLDER.to_owned()),
        None => job.handover.embeddings.get(&name(id)).cloned(),
    };
    // Drawn only where there is something to lose, so that the percentage is that of embeddings.
    source.filter(|_| !args.faults.lost_embeddings.occurs())
}

/// Limits a request if this engine only encodes for others: it then answers with one token.
pub(crate) fn limit(args: &Args, job: &mut Job) {
    if args.media.side() == Some(Side::Producer) && job.part == Part::Whole {
        for prompt in &mut job.prompts {
            prompt.limit = 1;
        }
    }
}

/// Returns an encoder's transfer parameters. Returns `None` if the engines share a folder.
pub(crate) fn params(args: &Args, job: &Job) -> Option<Value> {
    let transfer = args.media.transfer.as_ref()?;
    if transfer.side != Side::Producer || transfer.storage.is_some() || job.items.is_empty() {
        return None;
    }
    let (host, port) = (args.server.address.ip(), args.server.address.port());
    let place = json!({"peer_host": host.to_string(), "peer_port": port});
    Some(
        job.items.iter().map(|item| (name(item.id), place.clone())).collect::<serde_json::Map<_, _>>().into(),
    )
}
