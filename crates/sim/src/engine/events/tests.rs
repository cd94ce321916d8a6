//! Two simulated engines whose caches an index follows over real sockets.

use std::{collections::VecDeque, net::IpAddr, sync::Arc, time::Duration};

use longboat_kv_events::{
    Batch, Event, Follower, Index, Limits, Step,
    zmtp::{Bounds, Connection, Socket, ZmtpEvent},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{Args, engine::Engine};

const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// The other end of a connection: a subscriber, or a client that requests a replay.
struct Peer {
    connection: Connection,
    stream: TcpStream,
    received_events: VecDeque<ZmtpEvent>,
}

impl Peer {
    async fn new(socket: Socket, stream: TcpStream) -> Self {
        let connection = Connection::new(socket, Bounds::default());
        let mut peer = Self { connection, stream, received_events: VecDeque::new() };
        assert_eq!(peer.next().await, ZmtpEvent::Ready);
        peer
    }

    async fn next(&mut self) -> ZmtpEvent {
        let mut bytes = [0; 4096];
        loop {
            self.stream.write_all(&std::mem::take(&mut self.connection.output)).await.unwrap();
            if let Some(received) = self.received_events.pop_front() {
                return received;
            }
            let length = self.stream.read(&mut bytes).await.unwrap();
            assert!(length > 0, "the publisher closed the connection");
            self.received_events.extend(self.connection.receive(&bytes[..length]).unwrap());
        }
    }

    /// Returns the sequence number and the payload of the next message, which are its last two frames.
    async fn message(&mut self) -> ([u8; 8], Vec<u8>) {
        let ZmtpEvent::Message(mut frames) = self.next().await else { panic!("no message") };
        let payload = frames.pop().unwrap();
        (frames.pop().unwrap().try_into().unwrap(), payload)
    }
}

/// An engine that publishes to a subscriber listening on `port`, and serves replays on `replay`.
fn engine(port: u16, replay: u16) -> Arc<Engine> {
    let config = json!({
        "enable_kv_cache_events": true, "publisher": "zmq", "endpoint": format!("tcp://127.0.0.1:{port}"),
        "replay_endpoint": format!("tcp://*:{replay}"), "topic": "kv@pod@model", "buffer_steps": 3,
    });
    let config = config.to_string();
    let arguments = ["model", "--kv-cache-size", "8", "--block-size", "16", "--kv-events-config", &config];
    Arc::new(Engine::new(Args::simulator(&arguments).unwrap()))
}

async fn work(engine: &Arc<Engine>, tokens: &[u32]) {
    drop(engine.admit(tokens, 1, crate::caches::Caches::default()).await.unwrap());
}

/// An engine with a subscriber.
struct FollowedEngine {
    engine: Arc<Engine>,
    subscriber: Peer,
    follower: Follower,
    _tasks: JoinSet<()>,
}

impl FollowedEngine {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let engine = engine(listener.local_addr().unwrap().port(), 0);
        let tasks = engine.events.as_ref().unwrap().serve(HOST, &CancellationToken::new()).await.unwrap();
        let mut subscriber = Peer::new(Socket::Sub, listener.accept().await.unwrap().0).await;
        subscriber.connection.subscribe(b"kv@");
        // Messages are lost until the subscription is active, so the engine publishes until one arrives.
        let mut token = 1_000_000;
        while tokio::time::timeout(Duration::from_millis(20), subscriber.next()).await.is_err() {
            work(&engine, &[token; 16]).await;
            token += 1;
        }
        Self { engine, subscriber, follower: Follower::default(), _tasks: tasks }
    }

    /// Applies messages up to the last one that the engine has published.
    async fn follow(&mut self, index: &mut Index, holder: u32) {
        let last = self.engine.events.as_ref().unwrap().published() - 1;
        loop {
            let (sequence, payload) = self.subscriber.message().await;
            let sequence = u64::from_be_bytes(sequence);
            if let Step::Replay(_) = self.follower.live(sequence) {
                assert!(self.follower.replayed(sequence));
            }
            for event in &Batch::decode(&payload).unwrap().events {
                index.apply(holder, "model", event);
            }
            if sequence == last {
                break;
            }
        }
    }
}

#[tokio::test]
async fn the_engine_that_holds_a_prompt_is_known_until_it_drops_it() {
    let (mut first, mut second) = (FollowedEngine::new().await, FollowedEngine::new().await);
    let mut index = Index::new(Limits::default());
    let prompt: Vec<u32> = (0..80).collect();
    let longer: Vec<u32> = (0..100).collect();
    work(&first.engine, &prompt).await;
    work(&second.engine, &[7; 32]).await;
    first.follow(&mut index, 0).await;
    second.follow(&mut index, 1).await;
    let held = |index: &Index| index.held(&index.keys("model", &longer, ""), &[0, 1]);
    assert_eq!(held(&index), [5.0, 0.0]);
    // Seven other blocks, in a cache of eight.
    work(&first.engine, &(500..612).collect::<Vec<u32>>()).await;
    first.follow(&mut index, 0).await;
    assert_eq!(held(&index), [0.0, 0.0], "the oldest blocks went first, and what follows them is of no use");
    index.apply(1, "model", &Event::Cleared);
    assert_eq!(index.held(&index.keys("model", &[7; 32], ""), &[1]), [0.0]);
}

#[tokio::test]
async fn retained_messages_are_replayed() {
    let port = TcpListener::bind((HOST, 0)).await.unwrap().local_addr().unwrap().port();
    let engine = engine(1, port);
    for start in 0..5 {
        work(&engine, &[start; 16]).await;
    }
    let _tasks = engine.events.as_ref().unwrap().serve(HOST, &CancellationToken::new()).await.unwrap();
    let stream = TcpStream::connect((HOST, port)).await.unwrap();
    let mut dealer = Peer::new(Socket::Dealer, stream).await;
    for (start, expected) in [(0_u64, vec![2_u64, 3, 4]), (4, vec![4]), (9, vec![])] {
        dealer.connection.send(&[&[][..], &start.to_be_bytes()]);
        for sequence in expected {
            let (number, payload) = dealer.message().await;
            assert_eq!(u64::from_be_bytes(number), sequence);
            assert!(matches!(Batch::decode(&payload).unwrap().events[..], [Event::Stored(_)]));
        }
        assert_eq!(dealer.message().await, ([0xff; 8], vec![]));
    }
}
