//! Tests with client and server over loopback connections.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    Action, Client, ClientError, Event, HeaderChanges, Headers, ImmediateResponse, Incoming, MAX_BODY_CHUNK,
    Outbox, Processor, ProcessorExchange, Reply, ServerOptions, serve,
};

pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A processor that sends everything back, and counts its open exchanges.
#[derive(Default)]
struct Echo {
    open: Arc<AtomicUsize>,
    closed: Arc<Notify>,
    /// The statuses with which streams ended.
    ended: Arc<Mutex<Vec<u8>>>,
    /// Streams that were refused for want of room.
    refused: Arc<AtomicUsize>,
}

struct EchoExchange {
    open: Arc<AtomicUsize>,
    closed: Arc<Notify>,
    ended: Arc<Mutex<Vec<u8>>>,
}

impl Processor for Echo {
    type Exchange = EchoExchange;

    fn open(&self) -> EchoExchange {
        self.open.fetch_add(1, Ordering::SeqCst);
        EchoExchange {
            open: Arc::clone(&self.open),
            closed: Arc::clone(&self.closed),
            ended: Arc::clone(&self.ended),
        }
    }

    fn too_many_streams(&self) {
        self.refused.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for EchoExchange {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
        self.closed.notify_one();
    }
}

impl ProcessorExchange for EchoExchange {
    fn ended(&mut self, status: u8) {
        self.ended.lock().push(status);
    }

    fn handle(&mut self, incoming: Incoming, out: &mut Outbox) {
        match incoming.event {
            Event::RequestHeaders { headers, .. } => match headers.get(":path") {
                Some("/refuse") => {
                    out.push(Action::Immediate(ImmediateResponse {
                        status: 503,
                        body: Bytes::from_static(b"no"),
                        ..ImmediateResponse::default()
                    }));
                    out.finish();
                }
                Some("/close") => out.finish(),
                _ => out.push(Action::RequestHeaders(HeaderChanges {
                    set: headers.0,
                    ..HeaderChanges::default()
                })),
            },
            Event::RequestBody { body, end_of_stream } => {
                out.push(Action::RequestBody { body, end_of_stream });
            }
            Event::RequestTrailers(_) => out.push(Action::RequestTrailers(HeaderChanges::default())),
            Event::ResponseHeaders { .. } => out.push(Action::ResponseHeaders(HeaderChanges::default())),
            Event::ResponseBody { body, end_of_stream } => {
                out.push(Action::ResponseBody { body, end_of_stream });
            }
            Event::ResponseTrailers(_) => out.push(Action::ResponseTrailers(HeaderChanges::default())),
        }
    }
}

pub(super) struct ServerFixture {
    pub(super) address: SocketAddr,
    open: Arc<AtomicUsize>,
    pub(super) closed: Arc<Notify>,
    pub(super) ended: Arc<Mutex<Vec<u8>>>,
    pub(super) refused: Arc<AtomicUsize>,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

pub(super) async fn echo(options: ServerOptions) -> ServerFixture {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let processor = Echo::default();
    let (open, closed) = (Arc::clone(&processor.open), Arc::clone(&processor.closed));
    let (ended, refused) = (Arc::clone(&processor.ended), Arc::clone(&processor.refused));
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let serving = tokio::spawn(async move {
        serve(listener, Arc::new(processor), options, stop).await.unwrap();
    });
    ServerFixture { address, open, closed, ended, refused, shutdown, serving }
}

pub(super) fn request(path: &'static str) -> Event {
    let mut headers = Headers::new();
    headers.push(":path", path);
    Event::RequestHeaders { headers, end_of_stream: false }
}

pub(super) fn chunk(body: &[u8], end_of_stream: bool) -> Event {
    Event::RequestBody { body: Bytes::copy_from_slice(body), end_of_stream }
}

pub(super) async fn next(exchange: &mut crate::Exchange) -> Action {
    let reply: Reply = timeout(TEST_TIMEOUT, exchange.receive()).await.unwrap().unwrap().unwrap();
    reply.action
}

#[tokio::test]
async fn a_chunk_comes_back_before_the_next_is_sent() {
    let server = echo(ServerOptions::default()).await;
    let mut exchange = Client::new(server.address, None).open().await.unwrap();
    exchange.send(request("/")).await.unwrap();
    assert!(matches!(next(&mut exchange).await, Action::RequestHeaders(_)));
    // Each chunk is sent after the answer to the previous one, so this only works if nothing on the way buffers.
    for index in 0..5_u8 {
        exchange.send(chunk(&[index], false)).await.unwrap();
        let Action::RequestBody { body, end_of_stream } = next(&mut exchange).await else {
            panic!("not a body");
        };
        assert_eq!((body.as_ref(), end_of_stream), (&[index][..], false));
    }
    exchange.send(chunk(b"", true)).await.unwrap();
    assert_eq!(next(&mut exchange).await, Action::RequestBody { body: Bytes::new(), end_of_stream: true });
}

#[tokio::test]
async fn tls_without_verification_works_as_envoy_is_configured() {
    longboat_tls::install_default_provider();
    let pair = longboat_tls::self_signed(&longboat_tls::LeafRequest {
        common_name: "picker".to_owned(),
        days: 1,
        ..longboat_tls::LeafRequest::default()
    })
    .unwrap();
    let options = ServerOptions {
        tls: Some(longboat_tls::server_config(&pair, &[b"h2"]).unwrap()),
        ..ServerOptions::default()
    };
    let server = echo(options).await;
    let client = Client::new(server.address, Some(longboat_tls::insecure_client_config(&[b"h2"])));
    let mut exchange = client.open().await.unwrap();
    exchange.send(request("/")).await.unwrap();
    assert!(matches!(next(&mut exchange).await, Action::RequestHeaders(_)));
}

#[tokio::test]
async fn dropping_an_exchange_drops_it_at_the_processor() {
    let server = echo(ServerOptions::default()).await;
    let client = Client::new(server.address, None);
    let mut first = client.open().await.unwrap();
    let mut second = client.open().await.unwrap();
    for exchange in [&mut first, &mut second] {
        exchange.send(request("/")).await.unwrap();
        next(exchange).await;
    }
    assert_eq!(server.open.load(Ordering::SeqCst), 2);
    drop(first);
    timeout(TEST_TIMEOUT, server.closed.notified()).await.unwrap();
    assert_eq!(server.open.load(Ordering::SeqCst), 1);
    // The other stream of the same connection continues.
    second.send(chunk(b"x", true)).await.unwrap();
    assert!(matches!(next(&mut second).await, Action::RequestBody { .. }));
}

#[tokio::test]
async fn a_long_body_is_cut_for_envoy_and_arrives_whole() {
    let server = echo(ServerOptions::default()).await;
    let mut exchange = Client::new(server.address, None).open().await.unwrap();
    exchange.send(request("/")).await.unwrap();
    next(&mut exchange).await;
    let sent: Vec<u8> = (0..400_000_u32).map(|index| (index % 251) as u8).collect();
    exchange.send(chunk(&sent, true)).await.unwrap();
    let mut received = Vec::new();
    loop {
        let Action::RequestBody { body, end_of_stream } = next(&mut exchange).await else {
            panic!("not a body");
        };
        assert!(body.len() <= MAX_BODY_CHUNK);
        received.extend_from_slice(&body);
        if end_of_stream {
            break;
        }
    }
    assert!(received == sent);
}

#[tokio::test]
async fn an_immediate_response_is_the_last_word() {
    let server = echo(ServerOptions::default()).await;
    let mut exchange = Client::new(server.address, None).open().await.unwrap();
    exchange.send(request("/refuse")).await.unwrap();
    let Action::Immediate(answer) = next(&mut exchange).await else {
        panic!("not immediate");
    };
    assert_eq!((answer.status, answer.body.as_ref()), (503, &b"no"[..]));
    assert!(exchange.receive().await.unwrap().is_none());
}

#[tokio::test]
async fn a_processor_may_end_the_stream_without_error() {
    let server = echo(ServerOptions::default()).await;
    let mut exchange = Client::new(server.address, None).open().await.unwrap();
    exchange.send(request("/close")).await.unwrap();
    assert!(timeout(TEST_TIMEOUT, exchange.receive()).await.unwrap().unwrap().is_none());
}

#[tokio::test]
async fn a_refused_connection_is_an_error_of_open_and_the_next_open_tries_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = Client::new(address, None);
    assert!(matches!(client.open().await, Err(ClientError::Connect { .. })));
    let listener = TcpListener::bind(address).await.unwrap();
    let shutdown = CancellationToken::new();
    let _stop = shutdown.clone().drop_guard();
    tokio::spawn(async move {
        serve(listener, Arc::new(Echo::default()), ServerOptions::default(), shutdown).await.unwrap();
    });
    let mut exchange = client.open().await.unwrap();
    exchange.send(request("/")).await.unwrap();
    assert!(matches!(next(&mut exchange).await, Action::RequestHeaders(_)));
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_stream_with_an_error() {
    let server = echo(ServerOptions { max_receive_bytes: 1000, ..ServerOptions::default() }).await;
    let mut exchange = Client::new(server.address, None).open().await.unwrap();
    exchange.send(chunk(&[0; 2000], true)).await.unwrap();
    let ended = timeout(TEST_TIMEOUT, exchange.receive()).await.unwrap();
    assert!(matches!(ended, Err(ClientError::Status { .. })), "{ended:?}");
}

#[tokio::test]
async fn a_processor_is_told_how_a_stream_ends_unless_the_proxy_gives_it_up() {
    let server = echo(ServerOptions { max_receive_bytes: 1000, ..ServerOptions::default() }).await;
    let client = Client::new(server.address, None);
    let mut exchange = client.open().await.unwrap();
    exchange.send(request("/")).await.unwrap();
    next(&mut exchange).await;
    drop(exchange);
    timeout(TEST_TIMEOUT, server.closed.notified()).await.unwrap();
    assert!(server.ended.lock().is_empty());
    for event in [request("/close"), chunk(&[0; 2000], true)] {
        let mut exchange = client.open().await.unwrap();
        exchange.send(event).await.unwrap();
        timeout(TEST_TIMEOUT, exchange.receive()).await.unwrap().ok();
        timeout(TEST_TIMEOUT, server.closed.notified()).await.unwrap();
    }
    assert_eq!(*server.ended.lock(), [0, 2]);
}

#[tokio::test]
async fn shutdown_lets_a_stream_in_flight_end() {
    let server = echo(ServerOptions { grace: TEST_TIMEOUT, ..ServerOptions::default() }).await;
    let client = Client::new(server.address, None);
    let mut exchange = client.open().await.unwrap();
    exchange.send(request("/")).await.unwrap();
    next(&mut exchange).await;
    server.shutdown.cancel();
    tokio::time::sleep(Duration::from_millis(50)).await;
    exchange.send(chunk(b"late", true)).await.unwrap();
    assert!(matches!(next(&mut exchange).await, Action::RequestBody { .. }));
    // The server takes no new streams. The client sees this when it opens a stream, or at the first reply.
    if let Ok(mut refused) = client.open().await {
        assert!(timeout(TEST_TIMEOUT, refused.receive()).await.unwrap().is_err());
        assert!(client.open().await.is_err(), "the port is closed");
    }
    drop(exchange);
    timeout(TEST_TIMEOUT, server.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_killed_server_is_seen_as_a_broken_stream() {
    let server = echo(ServerOptions::default()).await;
    let mut exchange = Client::new(server.address, None).open().await.unwrap();
    exchange.send(request("/")).await.unwrap();
    next(&mut exchange).await;
    server.shutdown.cancel();
    timeout(TEST_TIMEOUT, server.serving).await.unwrap().unwrap();
    let ended = timeout(TEST_TIMEOUT, exchange.receive()).await.unwrap();
    assert!(ended.is_err(), "{ended:?}");
}
