//! Follows the KV cache events of the pool's endpoints, and keeps the precise prefix indexes up to date.
//!
//! Either an engine publishes on its own port, to which one task per endpoint subscribes, or the engine connects to a port of
//! the picker.

use std::sync::Arc;

use longboat_scheduler::{EndpointEvents, Holdings};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    core::Core,
    pool::{Member, for_each_member},
};

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
    let replays = Semaphore::new(MAX_REPLAYS);
    let shared = Arc::new(SharedState { holdings, models, replays, limits, core });
    let followed = |member: &Member| {
        let labels = &member.endpoint.labels;
        source.labels.iter().all(|(key, value)| {
            labels.get(key).is_some_and(|found| value.as_ref().is_none_or(|value| value == found))
        })
    };
    // A change of labels must not end a subscription and lose what it knows.
    let stays = |known: &Arc<Member>, member: &Arc<Member>| known.is_same(member) && followed(member);
    let task = |member: &Arc<Member>| {
        let publisher = || Publisher::new(Arc::clone(member), Arc::clone(&shared), &source).follow();
        followed(member).then(publisher)
    };
    for_each_member(&shared.core.pool, &shutdown, stays, task).await;
}
