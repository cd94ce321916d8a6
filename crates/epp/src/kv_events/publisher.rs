//! Follows one endpoint that publishes on its own ports.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use longboat_kv_events::{Follower, Step, zmtp::Socket};
use longboat_scheduler::{EndpointEvents, Holdings};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

use xxhash_rust::xxh64::xxh64;

use super::{Complaints, Message, Models, apply, link::Link};
use crate::pool::Member;

/// The wait before the next attempt to connect. The wait grows with each failure, up to the maximum.
const RETRY: Duration = Duration::from_millis(250);
const MAX_RETRY: Duration = Duration::from_secs(5);
/// The most time for a replay, and for the silence between its messages.
const REPLAY: Duration = Duration::from_mins(2);
const SILENCE: Duration = Duration::from_secs(2);
/// After this many attempts in a row without progress, a replay fails.
const ATTEMPTS: u32 = 3;
/// After a failed replay, no replay is requested for this time.
const COOLDOWN: Duration = Duration::from_secs(30);

/// The state that all publishers of a pool share.
pub(super) struct Shared {
    pub(super) holdings: Arc<Holdings>,
    /// Finds the model that an endpoint serves.
    pub(super) models: Arc<Models>,
    /// Limits the replays at once.
    pub(super) replays: Arc<Semaphore>,
}

pub(super) struct Publisher {
    member: Arc<Member>,
    holdings: Arc<Holdings>,
    models: Arc<Models>,
    live: SocketAddr,
    replay: Option<SocketAddr>,
    follower: Follower,
    /// The number of the last message that was applied, and the hash of its payload.
    last: Option<(u64, u64)>,
    /// The model that the topic names. Messages of a replay have no topic.
    model: String,
    /// Whether the model comes from the endpoint's API, because no topic has named it yet.
    assumed: bool,
    replays: Arc<Semaphore>,
    /// The earliest time for the next replay.
    cooled: Instant,
    said: Complaints,
}

impl Publisher {
    pub(super) fn new(
        member: Arc<Member>,
        Shared { holdings, models, replays }: Shared,
        source: &EndpointEvents,
    ) -> Self {
        // The ranks of a pod publish on consecutive ports.
        let rank = rank(&member.endpoint.name);
        let at = |port: u16| SocketAddr::new(member.endpoint.address.ip(), port.saturating_add(rank));
        Self {
            live: at(source.port),
            replay: source.replay_port.map(at),
            follower: Follower::default(),
            last: None,
            model: String::new(),
            assumed: false,
            models,
            cooled: Instant::now(),
            said: Complaints::default(),
            member,
            holdings,
            replays,
        }
    }

    /// Follows the publisher forever, over one connection after the other.
    pub(super) async fn follow(mut self) {
        let mut retry = RETRY;
        loop {
            let began = Instant::now();
            if let Err(error) = self.session().await {
                let endpoint = &self.member.endpoint.host_port;
                tracing::debug!(endpoint, address = %self.live, %error, "Receiving no KV cache events from \
                                                                         an endpoint.");
            }
            retry = if began.elapsed() > MAX_RETRY { RETRY } else { (retry * 2).min(MAX_RETRY) };
            tokio::time::sleep(retry).await;
        }
    }

    async fn session(&mut self) -> io::Result<()> {
        let mut link = Link::connect(Socket::Sub, self.live).await?;
        link.subscribe(&self.holdings.settings().events.topic);
        // The replay starts after the subscription, so that no message is lost between the two.
        if !self.begin().await && !self.resume().await {
            self.follower.connected();
        }
        loop {
            if let Some(message) = Message::new(link.message().await?) {
                self.message(&message).await;
            }
        }
    }

    async fn message(&mut self, message: &Message) {
        let (_, model) = message.names();
        if std::mem::take(&mut self.assumed) && model != self.model {
            // The replayed events were stored under another model name.
            self.forget();
            self.follower = Follower::default();
        }
        model.clone_into(&mut self.model);
        let mut step = self.follower.live(message.sequence);
        if step == Step::Restart {
            self.forget();
            step = match message.sequence {
                0 => Step::Apply,
                sequence => self.follower.live(sequence),
            };
        }
        let applies = match step {
            Step::Apply => true,
            Step::Replay(from) => {
                self.replay(from).await;
                self.follower.caught_up(message.sequence)
            }
            Step::Skip | Step::Restart => false,
        };
        if applies {
            self.apply(message);
        }
    }

    fn apply(&mut self, message: &Message) {
        self.last = Some((message.sequence, xxh64(&message.payload, 0)));
        apply(&self.holdings, &self.member, &self.model, &message.payload, &mut self.said);
    }

    fn forget(&mut self) {
        self.last = None;
        let slot = self.member.endpoint.slot.0;
        self.holdings.update(|index| {
            if !self.member.is_gone() {
                index.forget(slot);
            }
        });
    }

    /// Requests the events from before this picker started, so that it knows the caches of a long-running engine before the
    /// first message. Returns `false` if events were already applied, or if the endpoint does not name its model.
    async fn begin(&mut self) -> bool {
        if self.last.is_some() || !self.model.is_empty() || self.replay.is_none() {
            return false;
        }
        let Some(model) = self.models.of(&self.member.endpoint.host_port).await else { return false };
        self.model = model;
        self.assumed = true;
        let replayed = self.replay(0).await;
        if !replayed {
            // The first message shows that a replay is needed, and may ask for it at once.
            self.cooled = Instant::now();
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
        if !self.replay(last).await {
            return false;
        }
        if self.last.is_none() {
            self.follower = Follower::default();
            return self.replay(0).await;
        }
        true
    }

    /// Applies the missed messages that the publisher still has. Returns `false` if no replay was possible.
    async fn replay(&mut self, mut from: u64) -> bool {
        let Some(address) = self.replay.filter(|_| Instant::now() >= self.cooled) else { return false };
        let replays = Arc::clone(&self.replays);
        let Ok(_place) = replays.acquire().await else { return false };
        let deadline = Instant::now() + REPLAY;
        let mut fruitless = 0;
        while fruitless < ATTEMPTS {
            let before = from;
            match timeout_at(deadline, self.replay_once(address, &mut from)).await {
                Ok(Ok(())) => return true,
                Ok(Err(error)) => {
                    tracing::debug!(%address, %error, "A replay of KV cache events ended early.");
                }
                Err(_) => break,
            }
            fruitless = if from > before { 0 } else { fruitless + 1 };
        }
        self.cooled = Instant::now() + COOLDOWN;
        false
    }

    async fn replay_once(&mut self, address: SocketAddr, from: &mut u64) -> io::Result<()> {
        let mut link = Link::connect(Socket::Dealer, address).await?;
        link.send(&[&[], &from.to_be_bytes()]);
        let mut nothing = true;
        loop {
            let frames = timeout(SILENCE, link.message()).await??;
            let Some(message) = Message::new(frames) else {
                return Err(io::Error::other("a message of a replay has no number"));
            };
            let asked_last = self.last.is_some_and(|(last, _)| last == *from);
            // An empty payload ends the replay. A publisher that sent messages before would repeat at least the last one.
            if message.payload.is_empty() {
                if nothing && asked_last {
                    self.forget();
                }
                return Ok(());
            }
            if asked_last
                && message.sequence == *from
                && self.last != Some((*from, xxh64(&message.payload, 0)))
            {
                self.forget();
                return Ok(());
            }
            nothing = false;
            *from = message.sequence.saturating_add(1);
            if self.follower.replayed(message.sequence) {
                self.apply(&message);
            }
        }
    }
}

/// Returns the data-parallel rank from the end of an endpoint's name.
fn rank(name: &str) -> u16 {
    name.rsplit_once("-rank-").and_then(|(_, rank)| rank.parse().ok()).unwrap_or(0)
}
