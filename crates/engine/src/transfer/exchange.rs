//! One engine's part in divided requests: which half it computes, and its communication with the other engine.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use longboat_serving::{Job, Part, Refusal, Remote, Transfers, prefilled};
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use xxhash_rust::xxh64::xxh64;

use super::{
    config::{OnFailure, Settings},
    fetch::{FetchError, FetchSpec, FetchedBlocks, fetch},
    serve::Host,
    shelf::{Name, Shelf},
    wire::Key,
};
use crate::{
    LoadError,
    cache::{Block, Kv},
    inbox::queue_is_full,
    weights::Weights,
};

/// The time between two looks at the prompts that are not fetched, when the engine ends.
const FETCH_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The connector of an engine that divides requests with other engines.
pub(crate) struct Exchange {
    settings: Settings,
    host: Arc<Host>,
    block_tokens: usize,
    block_numbers: usize,
    /// One permit for each MiB of fetched blocks that are not in the cache yet.
    room: Arc<Semaphore>,
    /// One permit for each request that waits for its blocks.
    queue: Semaphore,
    transfers: Transfers,
}

/// A prompt that is computed for another engine.
pub(crate) struct PrefillHandoff {
    name: Name,
    prompt: u64,
    /// Receives the numbers of the blocks when they are kept.
    kept: oneshot::Sender<Vec<usize>>,
}

/// The blocks of a prompt that another engine has computed.
pub(crate) struct ImportedBlocks {
    pub(crate) numbers: Vec<f32>,
    _room: OwnedSemaphorePermit,
}

/// This engine's part of a request.
#[derive(Default)]
pub(crate) struct Share {
    /// Moves to the first sequence.
    pub(crate) handing: Option<PrefillHandoff>,
    /// Is cloned for every sequence.
    pub(crate) given: Option<Arc<ImportedBlocks>>,
    /// The transfer parameters, and the receiver of the kept blocks.
    kept: Option<(Value, oneshot::Receiver<Vec<usize>>)>,
}

/// Decides which part of a request this engine computes. Without a connector, it computes the whole request, like vLLM.
pub(crate) async fn share(exchange: Option<&Exchange>, job: &Job) -> Result<Share, Refusal> {
    if let Some(exchange) = exchange {
        return exchange.share(job).await;
    }
    if job.part != Part::Whole {
        tracing::warn!(
            "A request has kv_transfer_params, but this engine has no KV connector (--kv-transfer-config). \
             The engine computes the whole request and transfers nothing."
        );
    }
    Ok(Share::default())
}

// === impl Share ===

impl Share {
    /// Waits until the prompt's blocks are kept, and returns the parameters for the other engine.
    pub(crate) async fn params(self) -> Option<Value> {
        let (mut params, kept) = self.kept?;
        // If the sender was dropped, the prompt was not computed completely, and there is nothing to fetch.
        params["remote_block_ids"] = json!([kept.await.ok()?]);
        Some(params)
    }
}

// === impl PrefillHandoff ===

impl PrefillHandoff {
    /// Keeps the blocks for the other engine.
    pub(crate) fn keep(self, on: &Shelf, blocks: Vec<Block>) {
        let numbers = blocks.iter().map(|block| block.index()).collect();
        on.keep(self.name, self.prompt, blocks, Instant::now());
        // The send fails if the client has left. The blocks are released when their time is over.
        let _ = self.kept.send(numbers);
    }
}

// === impl Exchange ===

impl Exchange {
    /// Creates the connector of an engine with these weights and this cache. At most `max_waiting` requests wait for blocks.
    pub(crate) fn new(
        settings: &Settings,
        weights: &Weights,
        kv: &Arc<RwLock<Kv>>,
        max_waiting: usize,
        transfers: Transfers,
    ) -> Result<Self, LoadError> {
        let (shape, cache_bytes, block_bytes) = {
            let kv = kv.read();
            (kv.shape(weights.digest()?), kv.bytes(), kv.block_bytes())
        };
        // The other half of the cache is left for prompts that are being computed.
        let max_kept = cache_bytes / block_bytes / 2;
        let engine = settings.connector.engine_id.clone();
        let engine = engine.unwrap_or_else(|| format!("{:032x}", rand::random::<u128>()));
        Ok(Self {
            block_tokens: shape.block_tokens,
            block_numbers: block_bytes / size_of::<f32>(),
            // A whole prompt always fits, because it also fits into the cache.
            room: Arc::new(Semaphore::new(mebibytes(cache_bytes) as usize)),
            queue: Semaphore::new(max_waiting),
            host: Arc::new(Host {
                key: Arc::new(Key::new(&settings.token)),
                engine,
                shape,
                shelf: Arc::new(Shelf::new(settings.connector.lease, max_kept, transfers.expired.clone())),
                kv: Arc::clone(kv),
            }),
            settings: settings.clone(),
            transfers,
        })
    }

    /// The blocks that are kept for other engines.
    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        Arc::clone(&self.host.shelf)
    }

    /// Waits until other engines have fetched all prompts that were computed for them, or these have expired.
    pub(crate) async fn until_fetched(&self) {
        while self.host.shelf.has_prompts(Instant::now()) {
            tokio::time::sleep(FETCH_POLL_INTERVAL).await;
        }
    }

    /// Returns the server of blocks and its address. Returns `None` if this engine does not compute prompts for others.
    pub(crate) fn host(&self) -> Option<(Arc<Host>, SocketAddr)> {
        let produces = self.settings.connector.role.produces();
        produces.then(|| (Arc::clone(&self.host), self.settings.address))
    }

    /// Decides which part of a request this engine computes. If another engine has computed the prompt, fetches its blocks.
    async fn share(&self, job: &Job) -> Result<Share, Refusal> {
        let role = self.settings.connector.role;
        match job.part {
            Part::Whole => Ok(Share::default()),
            Part::Prefill if !role.produces() => Err(wrong_role("kv_consumer", "do_remote_decode")),
            Part::Decode if !role.consumes() => Err(wrong_role("kv_producer", "do_remote_prefill")),
            Part::Prefill | Part::Decode if job.prompts.len() > 1 => Err(Refusal::field(
                "prompt",
                "Engines share requests with one prompt: send each prompt by itself.",
            )),
            Part::Prefill => {
                let (sender, kept) = oneshot::channel();
                let name = Name::new();
                let handing = PrefillHandoff { name, prompt: digest(job), kept: sender };
                Ok(Share { handing: Some(handing), given: None, kept: Some((self.params(name), kept)) })
            }
            Part::Decode => self.decode(job).await,
        }
    }

    async fn decode(&self, job: &Job) -> Result<Share, Refusal> {
        let Some(remote) = &job.handover.remote else {
            tracing::warn!(
                "kv_transfer_params have no address of the KV cache; computing the prompt in this engine."
            );
            return Ok(Share::default());
        };
        // While its blocks are fetched, a request is in no queue of the worker, so these requests have a limit of their
        // own.
        let Ok(_waiting) = self.queue.try_acquire() else {
            return Err(queue_is_full());
        };
        match self.fetch(job, remote).await {
            Ok(given) => Ok(Share { given: Some(Arc::new(given)), ..Share::default() }),
            Err(error) => {
                self.transfers.failed.inc();
                let why = sentence(&error);
                tracing::warn!(error = why, "Could not get the KV cache of a prompt.");
                match self.settings.connector.on_failure {
                    OnFailure::Recompute => Ok(Share::default()),
                    OnFailure::Fail => Err(Refusal::failed(format!(
                        "KV cache load failed: {why}. To compute the prompt in this engine instead, set \
                         kv_load_failure_policy to \"recompute\"."
                    ))),
                }
            }
        }
    }

    async fn fetch(&self, job: &Job, remote: &Remote) -> Result<ImportedBlocks, FetchError> {
        let tokens = job.prompts.iter().map(|prompt| prompt.tokens.len()).sum::<usize>();
        let blocks = tokens.div_ceil(self.block_tokens);
        let bytes = blocks * self.block_numbers * size_of::<f32>();
        let permits = mebibytes(bytes);
        // The permits live as long as the fetched blocks: until the worker has copied them into its cache.
        let room = Arc::clone(&self.room).acquire_many_owned(permits).await;
        let room = room.expect("the semaphore is never closed");
        let wanted = FetchSpec {
            shape: self.host.shape.clone(),
            prompt: digest(job),
            blocks,
            block_numbers: self.block_numbers,
        };
        let FetchedBlocks { numbers, agreed, moved, acknowledged } =
            fetch(remote, &self.host.key, wanted).await?;
        self.transfers.moved(agreed, moved, bytes, blocks);
        if !acknowledged {
            self.transfers.failed_notifications.inc();
            self.transfers.failed.inc();
        }
        Ok(ImportedBlocks { numbers, _room: room })
    }

    /// Returns the transfer parameters of a kept prompt, without its blocks.
    fn params(&self, name: Name) -> Value {
        let mut params = prefilled(&self.host.engine, self.settings.address);
        params["remote_request_id"] = name.to_string().into();
        params["tp_size"] = 1.into();
        params
    }
}

/// Returns a hash of the tokens of a job's prompt.
fn digest(job: &Job) -> u64 {
    let tokens = job.prompts.iter().flat_map(|prompt| &prompt.tokens);
    xxh64(&tokens.flat_map(|token| token.to_le_bytes()).collect::<Vec<u8>>(), 0)
}

fn wrong_role(role: &str, field: &str) -> Refusal {
    Refusal::field(
        "kv_transfer_params",
        format!("This engine is a {role} (kv_role) and does not accept {field}."),
    )
}

/// Returns the size in MiB, at least 1, so that every prompt holds a permit.
fn mebibytes(bytes: usize) -> u32 {
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX >> 4).max(1)
}

/// Formats an error with its causes.
fn sentence(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(reason) => format!("{error}: {}", sentence(reason)),
        None => error.to_string(),
    }
}
