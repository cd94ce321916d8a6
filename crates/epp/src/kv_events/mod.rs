//! Follows the KV cache events of the pool's endpoints, and keeps the precise prefix indexes up to date.
//!
//! Either an engine publishes on its own port, to which one task per endpoint subscribes, or the engine connects to a port of
//! the picker.

use std::sync::Arc;

use longboat_kv_events::{Batch, Event, Outcome};
use longboat_scheduler::{EndpointEvents, Holdings};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use crate::{core::Core, pool::Member};

mod link;
mod listen;
mod models;
mod publisher;

pub(crate) use listen::EventListener;
pub(crate) use models::Models;
pub(crate) use publisher::Pace;
use publisher::{Publisher, SharedState};

/// The most replays at once over all endpoints. One replay contains all events that an engine remembers.
const MAX_REPLAYS: usize = 8;

/// The most blocks that change the index at once. Requests that are picked for wait for no more.
const MAX_BLOCKS: usize = 512;

/// Subscribes to each endpoint of the pool that publishes events, until shutdown.
pub(crate) async fn follow(
    holdings: Arc<Holdings>,
    source: EndpointEvents,
    models: Arc<Models>,
    pace: Pace,
    core: Arc<Core>,
    shutdown: CancellationToken,
) {
    let replays = Arc::new(Semaphore::new(MAX_REPLAYS));
    let mut changes = core.pool.changes();
    let mut tasks = JoinSet::new();
    let mut running: Vec<(Arc<Member>, AbortHandle)> = Vec::new();
    loop {
        let members = core.pool.members();
        let followed = |member: &Member| {
            let labels = &member.endpoint.labels;
            source.labels.iter().all(|(key, value)| {
                labels.get(key).is_some_and(|found| value.as_ref().is_none_or(|value| value == found))
            })
        };
        running.retain(|(member, task)| {
            let stays = members.iter().any(|current| current.is_same(member) && followed(current));
            if !stays {
                task.abort();
            }
            stays
        });
        for member in members.iter().filter(|member| followed(member)) {
            if !running.iter().any(|(known, _)| known.is_same(member)) {
                let shared = SharedState {
                    holdings: Arc::clone(&holdings),
                    models: Arc::clone(&models),
                    replays: Arc::clone(&replays),
                    pace,
                };
                let publisher = Publisher::new(Arc::clone(member), shared, &source, Arc::clone(&core));
                running.push((Arc::clone(member), tasks.spawn(publisher.follow())));
            }
        }
        tokio::select! {
            () = shutdown.cancelled() => break,
            ended = changes.changed() => if ended.is_err() { break },
            Some(_) = tasks.join_next() => {}
        }
    }
    tasks.shutdown().await;
}

/// A message of an engine.
struct Message {
    topic: Vec<u8>,
    sequence: u64,
    payload: Vec<u8>,
}

impl Message {
    /// Reads a message from its three frames. Returns `None` if the frames have another form.
    fn new(frames: Vec<Vec<u8>>) -> Option<Self> {
        let [topic, sequence, payload] = <[_; 3]>::try_from(frames).ok()?;
        let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
        Some(Self { topic, sequence, payload })
    }

    /// Splits the topic `kv@<endpoint>@<model>`. A missing part is empty.
    fn names(&self) -> (&str, &str) {
        let mut parts = std::str::from_utf8(&self.topic).unwrap_or_default().splitn(3, '@').skip(1);
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }
}

/// The warnings that were already logged about a publisher, so that each is logged once.
#[derive(Debug, Default)]
struct LoggedWarnings {
    malformed: bool,
    unusable: bool,
    nameless: bool,
}

/// Applies the events of a payload to the index entries of an endpoint.
async fn apply(holdings: &Holdings, member: &Member, model: &str, payload: &[u8], said: &mut LoggedWarnings) {
    let endpoint = &member.endpoint.host_port;
    let batch = match Batch::decode(payload) {
        Ok(batch) => batch,
        Err(error) => {
            if !std::mem::replace(&mut said.malformed, true) {
                tracing::warn!(endpoint, %error, "Cannot read KV cache events; ignoring them.");
            }
            return;
        }
    };
    if model.is_empty() && !std::mem::replace(&mut said.nameless, true) {
        tracing::warn!(
            endpoint,
            "The topic of KV cache events names no model, so they match no request; expected kv@ENDPOINT@MODEL."
        );
    }
    for event in &batch.events {
        let failed = applied(holdings, member, model, event).await;
        if failed == Some(Outcome::Unusable) && !std::mem::replace(&mut said.unusable, true) {
            tracing::warn!(
                endpoint,
                block_tokens = holdings.settings().limits.block_tokens,
                "The engine's block size is not a multiple of blockSizeTokens; set blockSizeTokens to the \
                 engine's block size."
            );
        }
    }
}

/// Applies an event in parts, and returns why the first part that was not applied was not.
async fn applied(holdings: &Holdings, member: &Member, model: &str, event: &Event) -> Option<Outcome> {
    let slot = member.endpoint.slot.0;
    if *event == Event::Cleared {
        forget(holdings, member).await;
    }
    for part in event.parts(MAX_BLOCKS) {
        // The lock is taken for each part, so that picks go on in between. The check for a removed endpoint is under the lock
        // too, because the index entries of a removed endpoint are deleted under it.
        let outcome = holdings.update(|index| (!member.is_gone()).then(|| index.apply(slot, model, &part)));
        // One endpoint with much to say must not keep scrapes and health checks waiting.
        tokio::task::yield_now().await;
        if let Some(outcome) = outcome.filter(|outcome| *outcome != Outcome::Applied) {
            return Some(outcome);
        }
    }
    None
}

/// Removes the index entries of an endpoint in parts, between which picks and other endpoints go on.
async fn forget(holdings: &Holdings, member: &Member) {
    let slot = member.endpoint.slot.0;
    while holdings.update(|index| !member.is_gone() && index.forget_part(slot, MAX_BLOCKS)) {
        tokio::task::yield_now().await;
    }
}
