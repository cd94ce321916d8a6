//! The connector of an engine: which part of a request it computes, and the transfer of KV caches to and from other engines.

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
    config::{LoadFailurePolicy, Settings},
    fetch::{FetchError, FetchSpec, FetchedBlocks, fetch},
    leases::{Leases, TransferId},
    serve::BlockServer,
    wire::Key,
};
use crate::{
    LoadError,
    cache::{Block, Kv},
    weights::Weights,
};

/// How often an engine that shuts down checks whether other engines have fetched their prompts.
const FETCH_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The connector of an engine that divides requests with other engines.
pub(crate) struct Connector {
    settings: Settings,
    server: Arc<BlockServer>,
    block_tokens: usize,
    block_numbers: usize,
    /// A permit for each MiB of fetched blocks that are not in the cache yet.
    fetch_memory: Arc<Semaphore>,
    /// A permit for each request that may wait for its blocks.
    fetch_slots: Semaphore,
    transfers: Transfers,
}

/// A prompt that is computed for another engine.
pub(crate) struct PrefillHandoff {
    id: TransferId,
    prompt: u64,
    /// Receives the numbers of the blocks when they are leased.
    leased: oneshot::Sender<Vec<usize>>,
}

/// The blocks of a prompt that another engine has computed.
pub(crate) struct ImportedBlocks {
    pub(crate) numbers: Vec<f32>,
    _memory: OwnedSemaphorePermit,
}

/// The transfers before and after this engine's part of a request.
#[derive(Default)]
pub(crate) struct RequestTransfers {
    /// Moves to the first sequence.
    pub(crate) handoff: Option<PrefillHandoff>,
    /// Is cloned for every sequence.
    pub(crate) imported: Option<Arc<ImportedBlocks>>,
    /// The transfer parameters, and the receiver of the leased blocks.
    leased: Option<(Value, oneshot::Receiver<Vec<usize>>)>,
}

/// Prepares the part of a request that this engine computes. Without a connector, it computes the whole request, like vLLM.
pub(crate) async fn prepare(connector: Option<&Connector>, job: &Job) -> Result<RequestTransfers, Refusal> {
    if let Some(connector) = connector {
        return connector.prepare(job).await;
    }
    if job.part != Part::Whole {
        tracing::warn!(
            "A request has kv_transfer_params, but this engine has no KV connector (--kv-transfer-config). \
             The engine computes the whole request and transfers nothing."
        );
    }
    Ok(RequestTransfers::default())
}

// === impl RequestTransfers ===

impl RequestTransfers {
    /// Waits until the prompt's blocks are leased, and returns the parameters for the other engine.
    pub(crate) async fn params(self) -> Option<Value> {
        let (mut params, leased) = self.leased?;
        // If the sender was dropped, the prompt was not computed completely, and there is nothing to fetch.
        params["remote_block_ids"] = json!([leased.await.ok()?]);
        Some(params)
    }
}

// === impl PrefillHandoff ===

impl PrefillHandoff {
    /// Leases the blocks to the other engine.
    pub(crate) fn lease(self, leases: &Leases, blocks: Vec<Block>) {
        let numbers = blocks.iter().map(|block| block.index()).collect();
        leases.grant(self.id, self.prompt, blocks, Instant::now());
        // The send fails if the client has disconnected. The blocks are released when the lease expires.
        let _ = self.leased.send(numbers);
    }
}

// === impl Connector ===

impl Connector {
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
        let max_leased = cache_bytes / block_bytes / 2;
        let engine_id = settings.config.engine_id.clone();
        let engine_id = engine_id.unwrap_or_else(|| format!("{:032x}", rand::random::<u128>()));
        Ok(Self {
            block_tokens: shape.block_tokens,
            block_numbers: block_bytes / size_of::<f32>(),
            // A whole prompt always fits, because it also fits into the cache.
            fetch_memory: Arc::new(Semaphore::new(mebibytes(cache_bytes) as usize)),
            fetch_slots: Semaphore::new(max_waiting),
            server: Arc::new(BlockServer {
                key: Arc::new(Key::new(&settings.token)),
                engine_id,
                shape,
                leases: Arc::new(Leases::new(
                    settings.config.lease_duration,
                    max_leased,
                    transfers.expired.clone(),
                )),
                kv: Arc::clone(kv),
            }),
            settings: settings.clone(),
            transfers,
        })
    }

    /// The leases of blocks to other engines.
    pub(crate) fn leases(&self) -> Arc<Leases> {
        Arc::clone(&self.server.leases)
    }

    /// Waits until other engines have fetched all prompts that were computed for them, or the leases have expired.
    pub(crate) async fn drain(&self) {
        while self.server.leases.has_active(Instant::now()) {
            tokio::time::sleep(FETCH_POLL_INTERVAL).await;
        }
    }

    /// Returns the server of blocks and its address. Returns `None` if this engine does not compute prompts for others.
    pub(crate) fn server(&self) -> Option<(Arc<BlockServer>, SocketAddr)> {
        let produces = self.settings.config.role.produces();
        produces.then(|| (Arc::clone(&self.server), self.settings.address))
    }

    /// Checks the part of a request that this engine computes. If another engine has computed the prompt, fetches its blocks.
    async fn prepare(&self, job: &Job) -> Result<RequestTransfers, Refusal> {
        let role = self.settings.config.role;
        match job.part {
            Part::Whole => Ok(RequestTransfers::default()),
            Part::Prefill if !role.produces() => Err(wrong_role("kv_consumer", "do_remote_decode")),
            Part::Decode if !role.consumes() => Err(wrong_role("kv_producer", "do_remote_prefill")),
            Part::Prefill | Part::Decode if job.prompts.len() > 1 => Err(Refusal::field(
                "prompt",
                "Engines share requests with one prompt: send each prompt by itself.",
            )),
            Part::Prefill => {
                let (sender, leased) = oneshot::channel();
                let id = TransferId::new();
                let handoff = PrefillHandoff { id, prompt: prompt_hash(job), leased: sender };
                Ok(RequestTransfers {
                    handoff: Some(handoff),
                    imported: None,
                    leased: Some((self.params(id), leased)),
                })
            }
            Part::Decode => self.decode(job).await,
        }
    }

    async fn decode(&self, job: &Job) -> Result<RequestTransfers, Refusal> {
        let Some(remote) = &job.handover.remote else {
            tracing::warn!(
                "kv_transfer_params have no address of the KV cache; computing the prompt in this engine."
            );
            return Ok(RequestTransfers::default());
        };
        // While its blocks are fetched, a request is in no queue of the worker, so these requests have a limit of their
        // own.
        let Ok(_waiting) = self.fetch_slots.try_acquire() else {
            return Err(Refusal::queue_full());
        };
        match self.fetch(job, remote).await {
            Ok(imported) => {
                Ok(RequestTransfers { imported: Some(Arc::new(imported)), ..RequestTransfers::default() })
            }
            Err(error) => {
                self.transfers.failed.inc();
                let reason = longboat_tls::chain(&error);
                tracing::warn!(error = reason, "Could not get the KV cache of a prompt.");
                match self.settings.config.load_failure_policy {
                    LoadFailurePolicy::Recompute => Ok(RequestTransfers::default()),
                    LoadFailurePolicy::Fail => Err(Refusal::failed(format!(
                        "KV cache load failed: {reason}. To compute the prompt in this engine instead, set \
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
        let memory = Arc::clone(&self.fetch_memory).acquire_many_owned(permits).await;
        let memory = memory.expect("the semaphore is never closed");
        let spec = FetchSpec {
            shape: self.server.shape.clone(),
            prompt: prompt_hash(job),
            blocks,
            block_numbers: self.block_numbers,
        };
        let FetchedBlocks { numbers, handshake, transfer, acknowledged } =
            fetch(remote, &self.server.key, spec).await?;
        self.transfers.received(handshake, transfer, bytes, blocks);
        if !acknowledged {
            self.transfers.failed_notifications.inc();
            self.transfers.failed.inc();
        }
        Ok(ImportedBlocks { numbers, _memory: memory })
    }

    /// Returns the transfer parameters of a leased prompt, without its blocks.
    fn params(&self, id: TransferId) -> Value {
        let mut params = prefilled(&self.server.engine_id, self.settings.address);
        params["remote_request_id"] = id.to_string().into();
        params["tp_size"] = 1.into();
        params
    }
}

/// Returns a hash of the tokens of a job's prompt.
fn prompt_hash(job: &Job) -> u64 {
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
