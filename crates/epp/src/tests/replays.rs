//! Engines with faulty replays of KV cache events, over real sockets. A faulty engine must not delay the replays of the others.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use longboat_kv_events::{
    Batch, Event, Stored,
    zmtp::{Bounds, Connection, Socket, ZmtpEvent},
};
use longboat_scheduler::{EndpointEvents, Holdings};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::support;
use crate::{
    core::Core,
    kv_events::{Models, ReplayLimits, follow},
};

const TEST_TIMEOUT: Duration = Duration::from_secs(30);
const PRECISE: &str = "
plugins:
- {type: precise-prefix-cache-producer}
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}
";

/// The answer of an engine to a request for earlier messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replays {
    /// With the messages.
    Well,
    /// With messages without end.
    Endless,
    /// With the same message without end.
    Same,
    /// With nothing.
    Nothing,
    /// Not at all.
    Never,
}

/// An engine's publisher, in which message `n` stores the block of the tokens `n`.
struct Engine {
    address: SocketAddr,
    /// Requests for a replay.
    asked: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

fn payload(number: u64) -> Vec<u8> {
    let stored = Stored {
        hashes: vec![number],
        tokens: vec![u32::try_from(number % 1_000_000).unwrap(); 16],
        block_size: 16,
        medium: "gpu".to_owned(),
        ..Stored::default()
    };
    Batch { timestamp: 0.0, events: vec![Event::Stored(Box::new(stored))], rank: None, unknown: 0 }
        .encode(false)
}

/// A peer of the picker.
struct Peer {
    stream: TcpStream,
    connection: Connection,
}

impl Peer {
    fn new(stream: TcpStream, socket: Socket) -> Self {
        Self { stream, connection: Connection::new(socket, Bounds::default()) }
    }

    async fn flush(&mut self) -> Option<()> {
        let output = std::mem::take(&mut self.connection.output);
        self.stream.write_all(&output).await.ok()
    }

    async fn receive(&mut self) -> Option<Vec<ZmtpEvent>> {
        self.flush().await?;
        let mut bytes = [0; 4096];
        let length = self.stream.read(&mut bytes).await.ok().filter(|length| *length > 0)?;
        let received = self.connection.receive(&bytes[..length]).ok()?;
        self.flush().await?;
        Some(received)
    }

    /// Waits for what the picker asks for: a subscription, or a replay from a number on.
    async fn asked(&mut self) -> Option<u64> {
        loop {
            for received in self.receive().await? {
                match received {
                    ZmtpEvent::Subscribe(_) => return Some(0),
                    ZmtpEvent::Message(frames) => {
                        return Some(u64::from_be_bytes(frames.last()?[..].try_into().ok()?));
                    }
                    _ => {}
                }
            }
        }
    }

    async fn send(&mut self, frames: [&[u8]; 3]) -> Option<()> {
        self.connection.send(&frames);
        self.flush().await
    }

    async fn replay(&mut self, number: u64) -> Option<()> {
        self.connection.send(&[&[][..], &number.to_be_bytes(), &payload(number)]);
        self.flush().await
    }
}

impl Engine {
    /// Publishes the messages `numbers`, one after the other, to whoever subscribes.
    async fn start(ip: IpAddr, (live, replay): (u16, u16), replays: Replays, numbers: Vec<u64>) -> Self {
        let listener = TcpListener::bind((ip, live)).await.unwrap();
        let questions = TcpListener::bind((ip, replay)).await.unwrap();
        let asked = Arc::<AtomicUsize>::default();
        let mut tasks = JoinSet::new();
        let last = numbers.last().copied().unwrap_or_default();
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let numbers = numbers.clone();
                open.spawn(async move {
                    let mut peer = Peer::new(stream, Socket::Pub);
                    let _ = peer.asked().await;
                    for number in numbers {
                        let sent = peer.send([b"kv@a@m", &number.to_be_bytes(), &payload(number)]).await;
                        if sent.is_none() {
                            return;
                        }
                    }
                    while peer.receive().await.is_some() {}
                });
            }
        });
        let count = Arc::clone(&asked);
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = questions.accept().await {
                let asked = Arc::clone(&count);
                open.spawn(async move {
                    let mut peer = Peer::new(stream, Socket::Router);
                    let Some(from) = peer.asked().await else { return };
                    asked.fetch_add(1, Relaxed);
                    let numbers: Box<dyn Iterator<Item = u64> + Send> = match replays {
                        Replays::Well => Box::new(from..=last),
                        Replays::Endless => Box::new(from..),
                        Replays::Same => Box::new(std::iter::repeat(from)),
                        Replays::Nothing => Box::new(std::iter::empty()),
                        Replays::Never => return while peer.receive().await.is_some() {},
                    };
                    for number in numbers {
                        if peer.replay(number).await.is_none() {
                            return;
                        }
                    }
                    peer.connection.send(&[&[][..], &u64::MAX.to_be_bytes(), &[]]);
                    let _ = peer.flush().await;
                    while peer.receive().await.is_some() {}
                });
            }
        });
        Self { address: SocketAddr::new(ip, 18_300), asked, _tasks: tasks }
    }
}

struct FollowerFixture {
    core: Arc<Core>,
    holdings: Arc<Holdings>,
    engines: Vec<Engine>,
    _stop: DropGuard,
}

impl FollowerFixture {
    async fn start(limits: ReplayLimits, engines: Vec<(Replays, Vec<u64>)>) -> Self {
        longboat_tls::install_default_provider();
        let ips: Vec<IpAddr> = (0..engines.len())
            .map(|index| IpAddr::from([127, 0, 7, u8::try_from(index + 1).unwrap()]))
            .collect();
        let (live, replay) = support::ports(&ips).await;
        let mut all = Vec::new();
        for (ip, (replays, numbers)) in ips.into_iter().zip(engines) {
            all.push(Engine::start(ip, (live, replay), replays, numbers).await);
        }
        let core = support::core(PRECISE);
        let desired = all.iter().enumerate().map(|(index, engine)| {
            // The order of names is the order of slots.
            support::desired(&format!("pod{index:02}"), engine.address, &[])
        });
        core.set_endpoints(desired.collect());
        let holdings = core.state.read().holdings().remove(0);
        let source = EndpointEvents { port: live, replay_port: Some(replay), labels: Vec::new() };
        let stop = CancellationToken::new();
        let tls = longboat_tls::insecure_client_config(&[b"http/1.1"]);
        let models = Arc::new(Models::new("http", &tls));
        tokio::spawn(follow(Arc::clone(&holdings), source, models, limits, Arc::clone(&core), stop.clone()));
        Self { core, holdings, engines: all, _stop: stop.drop_guard() }
    }

    /// Waits until an engine is known to hold the block of a message.
    async fn until_held(&self, engine: usize, number: u64) {
        let tokens = [u32::try_from(number % 1_000_000).unwrap(); 16];
        let holder = u32::try_from(engine).unwrap();
        let held = timeout(TEST_TIMEOUT, async {
            loop {
                let held = self.holdings.update(|index| {
                    let keys = index.keys("m", &tokens, "");
                    index.held(&keys, &[holder])[0]
                });
                if held > 0.0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(held.await.is_ok(), "block {number} of engine {engine} is unknown");
    }

    fn asked(&self, engine: usize) -> usize {
        self.engines[engine].asked.load(Relaxed)
    }
}

fn limits() -> ReplayLimits {
    ReplayLimits {
        turn: Duration::from_millis(300),
        pause: Duration::ZERO,
        cooldown: Duration::from_hours(1),
        messages: 800,
        ..ReplayLimits::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engines_with_endless_replays_leave_room_for_the_others() {
    let mut faulty = vec![Replays::Endless; 9];
    faulty.extend([Replays::Never, Replays::Same]);
    let numbers = vec![1_000_000, 1_000_001];
    let mut engines: Vec<_> = faulty.iter().map(|&replays| (replays, numbers.clone())).collect();
    engines.push((Replays::Well, (0..300).filter(|number| number % 7 == 6).collect()));
    let following = FollowerFixture::start(limits(), engines).await;
    let well = following.engines.len() - 1;
    // Message 0 came before the picker had subscribed, and is known from a replay only. So are those of later gaps.
    for number in [0, 1, 150, 292, 293] {
        following.until_held(well, number).await;
    }
    for (engine, &replays) in faulty.iter().enumerate() {
        // The picker has given up, and follows the messages that come.
        following.until_held(engine, 1_000_001).await;
        match replays {
            Replays::Same => assert_eq!(following.asked(engine), 1, "more attempts bring no more"),
            Replays::Never => assert_eq!(following.asked(engine), 3),
            _ => {}
        }
    }
    assert!(following.holdings.len() <= 800 * 12);
    assert_eq!(following.core.event_bytes.held(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_whose_gaps_stay_is_not_asked_for_each_of_them() {
    let gaps: Vec<u64> = (1..400).map(|number| number * 2).collect();
    let following =
        FollowerFixture::start(limits(), vec![(Replays::Nothing, gaps.clone()), (Replays::Well, gaps)]).await;
    for engine in [0, 1] {
        following.until_held(engine, 798).await;
        following.until_held(engine, 400).await;
    }
    following.until_held(1, 399).await;
    assert_eq!(following.asked(0), 1, "the first gap stayed");
    assert!(following.asked(1) > 1, "each replay closes a gap");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_engines_that_come_back_at_once_all_get_their_replays() {
    let engines = vec![(Replays::Well, vec![499, 500]); 60];
    let following = FollowerFixture::start(ReplayLimits::default(), engines).await;
    for engine in 0..60 {
        for number in [0, 250, 498, 500] {
            following.until_held(engine, number).await;
        }
        assert_eq!(following.asked(engine), 1);
    }
    assert_eq!(following.holdings.len(), 60 * 501);
}
