//! Follows the KV cache events of the pool's endpoints, and keeps the precise prefix indexes up to date.
//!
//! Either an engine publishes on its own port, to which one task per endpoint subscribes, or the engine connects to a port of
//! the picker.

use std::sync::Arc;

use longboat_scheduler::{EndpointEvents, Holdings};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use crate::{core::Core, pool::Member};

mod index;
mod link;
mod listen;
mod message;
mod models;
mod publisher;

pub(crate) use listen::EventListener;
pub(crate) use models::Models;
pub(crate) use publisher::ReplayLimits;
use publisher::{Publisher, SharedState};

/// The most replays at once over all endpoints. One replay contains all events that an engine remembers.
const MAX_REPLAYS: usize = 8;

/// Subscribes to each endpoint of the pool that publishes events, until shutdown.
pub(crate) async fn follow(
    holdings: Arc<Holdings>,
    source: EndpointEvents,
    models: Arc<Models>,
    limits: ReplayLimits,
    core: Arc<Core>,
    shutdown: CancellationToken,
) {
    let mut changes = core.pool.changes();
    let replays = Semaphore::new(MAX_REPLAYS);
    let shared = Arc::new(SharedState { holdings, models, replays, limits, core });
    let mut tasks = JoinSet::new();
    let mut running: Vec<(Arc<Member>, AbortHandle)> = Vec::new();
    loop {
        let members = shared.core.pool.members();
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
            // Not by address, as for scrapes: a change of labels must not end a subscription and lose what it knows.
            if !running.iter().any(|(known, _)| known.is_same(member)) {
                let publisher = Publisher::new(Arc::clone(member), Arc::clone(&shared), &source);
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
