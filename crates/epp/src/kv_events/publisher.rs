//! Follows one endpoint that publishes on its own ports.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use longboat_kv_events::{Follower, Step, zmtp::Socket};
use longboat_scheduler::{EndpointEvents, Holdings};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use xxhash_rust::xxh64::xxh64;

use super::{
    index::{LoggedWarnings, apply, forget},
    link::Link,
    message::Message,
    models::Models,
};
use crate::{backoff::Backoff, core::Core, metrics::KvEventMetrics, pool::Member};

/// The wait before the next attempt to connect.
const RECONNECTS: Backoff = Backoff { first: Duration::from_millis(250), max: Duration::from_secs(5) };
/// The longest silence between the messages of a replay.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2);
/// After this many attempts in a row without progress, a replay fails.
const ATTEMPTS: u32 = 3;

/// The limits of an endpoint's replays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplayLimits {
    /// The most time for a replay.
    pub(crate) total: Duration,
    /// The time after which a replay makes room for waiting replays. It continues after them.
    pub(crate) turn: Duration,
    /// The most messages of a replay. Engines remember 10,000 messages unless they are told otherwise.
    pub(crate) messages: usize,
    /// The most bytes of a replay.
    pub(crate) bytes: usize,
    /// The least time between two replays of an endpoint.
    pub(crate) pause: Duration,
    /// After a failed replay, and after one that leaves a gap as it is, no replay is requested for this time.
    pub(crate) cooldown: Duration,
}

impl Default for ReplayLimits {
    fn default() -> Self {
        Self {
            total: Duration::from_mins(2),
            turn: Duration::from_secs(15),
            messages: 1 << 20,
            bytes: 1 << 30,
            pause: Duration::from_secs(1),
            cooldown: Duration::from_secs(30),
        }
    }
}

/// The state that all publishers of a pool share.
pub(super) struct SharedState {
    pub(super) holdings: Arc<Holdings>,
    /// Finds the model that an endpoint serves.
    pub(super) models: Arc<Models>,
    /// Limits the replays at once.
    pub(super) replays: Semaphore,
    pub(super) limits: ReplayLimits,
    pub(super) core: Arc<Core>,
}

pub(super) struct Publisher {
    member: Arc<Member>,
    shared: Arc<SharedState>,
    live: SocketAddr,
    replay: Option<SocketAddr>,
    follower: Follower,
    /// The number of the last message that was applied, and the hash of its payload.
    last: Option<(u64, u64)>,
    /// The model that the topic names. Messages of a replay have no topic.
    model: String,
    /// Whether the model comes from the endpoint's API, because no topic has named it yet.
    model_is_from_api: bool,
    /// The earliest time for the next replay.
    next_replay: Instant,
    logged: LoggedWarnings,
}

impl Publisher {
    pub(super) fn new(member: Arc<Member>, shared: Arc<SharedState>, source: &EndpointEvents) -> Self {
        // The ranks of a pod publish on consecutive ports.
        let rank = rank(&member.endpoint.name);
        let at = |port: u16| SocketAddr::new(member.endpoint.address.ip(), port.saturating_add(rank));
        Self {
            live: at(source.port),
            replay: source.replay_port.map(at),
            follower: Follower::default(),
            last: None,
            model: String::new(),
            model_is_from_api: false,
            next_replay: Instant::now(),
            logged: LoggedWarnings::default(),
            member,
            shared,
        }
    }

    /// Follows the publisher forever, over one connection after the other.
    pub(super) async fn follow(mut self) {
        let mut wait = Duration::ZERO;
        let shared = Arc::clone(&self.shared);
        let metrics = shared.core.metrics.kv_cache.as_ref().map(|metrics| &metrics.events);
        let _subscribed = metrics.map(KvEventMetrics::subscribed);
        let name = self.member.endpoint.full_name();
        loop {
            let began = Instant::now();
            if let Err(error) = self.session().await {
                let endpoint = &self.member.endpoint.host_port;
                tracing::debug!(
                    endpoint,
                    address = %self.live,
                    %error,
                    "Receiving no KV cache events from an endpoint."
                );
            }
            wait = RECONNECTS.next(wait, began.elapsed());
            tokio::time::sleep(wait).await;
            if let Some(metrics) = metrics {
                metrics.reconnected(&name);
            }
        }
    }

    async fn session(&mut self) -> io::Result<()> {
        let connected = Link::connect(Socket::Sub, self.live, &self.shared.core.event_bytes).await;
        if connected.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
            && self.last.is_some()
        {
            // Nobody listens, so the process has ended, and its cache with it. Without a replay, the numbers of the next process may not
            // show this: they need not go back.
            self.forget().await;
            self.follower = Follower::default();
        }
        let mut link = connected.inspect_err(|_| self.failed("connect"))?;
        link.subscribe(&self.shared.holdings.settings().events.topic);
        // The replay starts after the subscription, so that no message is lost between the two.
        if !self.replay_history().await && !self.resume().await {
            // No replay has shown that this is still the same process, so a number that goes back counts as a restart.
            self.follower.connected();
        }
        loop {
            let frames = link.message().await.inspect_err(|_| self.failed("recv"))?;
            if let Some(message) = Message::new(frames) {
                if let Some(metrics) = &self.shared.core.metrics.kv_cache {
                    metrics.events.received(&self.member.endpoint.full_name());
                }
                self.message(&message).await;
            }
        }
    }

    async fn message(&mut self, message: &Message) {
        let (_, model) = message.names();
        if std::mem::take(&mut self.model_is_from_api) && model != self.model {
            // The replayed events were stored under another model name.
            self.forget().await;
            self.follower = Follower::default();
        }
        model.clone_into(&mut self.model);
        let mut step = self.follower.live(message.sequence);
        if step == Step::Restart {
            self.forget().await;
            step = match message.sequence {
                0 => Step::Apply,
                sequence => self.follower.live(sequence),
            };
        }
        let applies = match step {
            Step::Apply => true,
            Step::Replay(from) => {
                self.replay(from, Some(message.sequence)).await;
                self.follower.replayed(message.sequence)
            }
            Step::Skip | Step::Restart => false,
        };
        if applies {
            self.apply(message).await;
        }
    }

    async fn apply(&mut self, message: &Message) {
        self.last = Some((message.sequence, xxh64(&message.payload, 0)));
        apply(&self.shared.holdings, &self.member, &self.model, &message.payload, &mut self.logged).await;
    }

    async fn forget(&mut self) {
        self.last = None;
        forget(&self.shared.holdings, &self.member).await;
    }

    /// Requests the events from before this picker started, so that it knows the caches of a long-running engine before the
    /// first message. Returns `false` if events were already applied, or if the endpoint does not name its model.
    async fn replay_history(&mut self) -> bool {
        if self.last.is_some() || !self.model.is_empty() || self.replay.is_none() {
            return false;
        }
        let Some(model) = self.shared.models.of(&self.member.endpoint.host_port).await else { return false };
        self.model = model;
        self.model_is_from_api = true;
        let replayed = self.replay(0, None).await;
        if !replayed {
            // The first message shows that a replay is needed, and may ask for it at once.
            self.next_replay = Instant::now();
        }
        replayed
    }

    /// Catches up after a connection ended. Sequence numbers alone do not show whether the publisher is still the same process.
    /// So the replay must contain the last applied message with the same payload; otherwise everything is forgotten and
    /// requested again. Returns `false` if the replay failed.
    ///
    /// Before the first message, nothing can be resumed: only a message's topic names the model, and a replay has no topics.
    async fn resume(&mut self) -> bool {
        let Some((last, _)) = self.last else { return false };
        if !self.replay(last, None).await {
            return false;
        }
        if self.last.is_none() {
            self.follower = Follower::default();
            return self.replay(0, None).await;
        }
        true
    }

    /// Applies the missed messages that the publisher still has, up to the message that showed the gap if there is one. Returns
    /// `false` if no replay was possible.
    ///
    /// The next replay may come after a pause. If a gap stays open, or attempts fail, it may only come after the cooldown. So an
    /// engine whose messages always have gaps costs one short connection a second, or less.
    async fn replay(&mut self, mut from: u64, until: Option<u64>) -> bool {
        let Some(address) = self.replay else { return false };
        if self.next_replay.saturating_duration_since(Instant::now()) > self.shared.limits.pause {
            return false;
        }
        // Meanwhile the engine keeps its new messages, and the replay has most of them.
        tokio::time::sleep_until(self.next_replay).await;
        let shared = Arc::clone(&self.shared);
        let limits = shared.limits;
        // What is left of the limits.
        let mut left = limits;
        let (first, mut failures) = (from, 0);
        while failures < ATTEMPTS && !left.total.is_zero() {
            let before = from;
            let Ok(place) = shared.replays.acquire().await else { return false };
            let began = Instant::now();
            let turn = left.total.min(limits.turn);
            let replayed = self.replay_once(address, &mut from, until, &mut left);
            let ended = timeout(turn, replayed).await;
            drop(place);
            left.total = left.total.saturating_sub(began.elapsed());
            match ended {
                Ok(Ok(())) => {
                    let closed = until.is_none() || from > first;
                    self.next_replay = Instant::now() + if closed { limits.pause } else { limits.cooldown };
                    return true;
                }
                Ok(Err(error)) => {
                    tracing::debug!(%address, %error, "A replay of KV cache events ended early.");
                    self.failed("replay-incomplete");
                    // The publisher breaks the protocol. Each attempt could bring a few messages and break it again, so that
                    // the failures in a row would never be enough to end the replay.
                    if error.kind() == io::ErrorKind::InvalidData {
                        break;
                    }
                }
                // Its turn is over. Others that wait for a place come first.
                Err(_) => {}
            }
            failures = if from > before { 0 } else { failures + 1 };
        }
        self.failed("replay-no-progress");
        self.next_replay = Instant::now() + limits.cooldown;
        false
    }

    async fn replay_once(
        &mut self,
        address: SocketAddr,
        from: &mut u64,
        until: Option<u64>,
        left: &mut ReplayLimits,
    ) -> io::Result<()> {
        let mut link = Link::connect(Socket::Dealer, address, &self.shared.core.event_bytes).await?;
        link.send(&[&[], &from.to_be_bytes()]);
        let mut is_first = true;
        loop {
            let frames = timeout(SILENCE_TIMEOUT, link.message()).await??;
            let Some(message) = Message::new(frames) else {
                return Err(violation("a message of a replay has no number"));
            };
            let starts_at_last = self.last.is_some_and(|(last, _)| last == *from);
            // An empty payload ends the replay. A publisher that sent messages before would repeat at least the last one.
            if message.payload.is_empty() {
                if is_first && starts_at_last {
                    self.forget().await;
                }
                return Ok(());
            }
            if message.sequence < *from {
                return Err(violation("the numbers of a replay go back"));
            }
            if starts_at_last
                && message.sequence == *from
                && self.last != Some((*from, xxh64(&message.payload, 0)))
            {
                self.forget().await;
                return Ok(());
            }
            // The live messages continue here.
            if until.is_some_and(|until| message.sequence >= until) {
                return Ok(());
            }
            left.messages = left.messages.saturating_sub(1);
            left.bytes = left.bytes.saturating_sub(message.payload.len());
            if left.messages == 0 || left.bytes == 0 {
                return Err(violation("a replay has no end"));
            }
            is_first = false;
            *from = message.sequence.saturating_add(1);
            if self.follower.replayed(message.sequence) {
                self.apply(&message).await;
            }
        }
    }

    fn failed(&self, operation: &'static str) {
        if let Some(metrics) = &self.shared.core.metrics.kv_cache {
            metrics.events.failed(&self.member.endpoint.full_name(), operation);
        }
    }
}

/// The error for a publisher that breaks the protocol of replays.
fn violation(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Returns the data-parallel rank from the end of an endpoint's name.
fn rank(name: &str) -> u16 {
    name.rsplit_once("-rank-").and_then(|(_, rank)| rank.parse().ok()).unwrap_or(0)
}
