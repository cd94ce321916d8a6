//! Callers that do nothing, or too much, over real sockets.

use std::{future::Future, time::Duration};

use longboat_accept::Budget;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::socket::{ServerFixture, TEST_TIMEOUT, chunk, echo, next, request};
use crate::{Client, ClientError, Limits, ServerOptions};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const PATH: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// Limits that are reached in moments, where a test wants to reach them.
fn short() -> Limits {
    let hour = Duration::from_hours(1);
    Limits { first: hour, idle: hour, silence: hour, answer: hour, ..Limits::default() }
}

fn soon() -> Duration {
    Duration::from_millis(100)
}

/// Runs a test against a server with these limits.
async fn limited<F: Future<Output = ()>>(limits: Limits, test: impl Fn(ServerFixture) -> F) {
    test(echo(ServerOptions { limits, ..ServerOptions::default() }).await).await;
}

/// Reads until the server closes the connection.
async fn closed(stream: &mut TcpStream) {
    let mut rest = [0; 1024];
    let read = async { while stream.read(&mut rest).await.is_ok_and(|length| length > 0) {} };
    assert!(timeout(TEST_TIMEOUT, read).await.is_ok(), "the connection is still open");
}

async fn connect(running: &ServerFixture) -> TcpStream {
    TcpStream::connect(running.address).await.unwrap()
}

/// The frame that opens a stream.
fn headers(stream: u8) -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x44, u8::try_from(PATH.len()).unwrap()];
    block.extend_from_slice(PATH.as_bytes());
    block.extend_from_slice(b"\x41\x01a\x0f\x10\x10application/grpc");
    block.extend_from_slice(b"\x00\x02te\x08trailers");
    let mut frame = vec![0, 0, u8::try_from(block.len()).unwrap(), 1, 4, 0, 0, 0, stream];
    frame.extend(block);
    frame
}

fn client(running: &ServerFixture) -> Client {
    Client::new(running.address, None)
}

#[tokio::test]
async fn a_connection_that_says_nothing_or_drips_is_closed() {
    let limits = Limits { first: soon(), ..short() };
    limited(limits, |running| async move {
        let mut silent = connect(&running).await;
        let mut polite = connect(&running).await;
        polite.write_all(PREFACE).await.unwrap();
        polite.write_all(&SETTINGS).await.unwrap();
        let mut slow = connect(&running).await;
        let (mut reads, mut writes) = slow.split();
        let drip = async {
            for byte in PREFACE.iter().cycle() {
                if writes.write_all(&[*byte]).await.is_err() {
                    return;
                }
                tokio::time::sleep(soon() / 5).await;
            }
        };
        let mut rest = [0; 64];
        let read = async { while reads.read(&mut rest).await.is_ok_and(|length| length > 0) {} };
        timeout(TEST_TIMEOUT, async {
            tokio::select! {
                () = drip => {}
                () = read => {}
            }
        })
        .await
        .unwrap();
        closed(&mut silent).await;
        closed(&mut polite).await;
    })
    .await;
}

#[tokio::test]
async fn a_stream_without_a_message_ends() {
    let limits = Limits { first: soon(), ..short() };
    limited(limits, |running| async move {
        let mut caller = connect(&running).await;
        caller.write_all(PREFACE).await.unwrap();
        caller.write_all(&SETTINGS).await.unwrap();
        caller.write_all(&headers(1)).await.unwrap();
        timeout(TEST_TIMEOUT, running.closed.notified()).await.unwrap();
        assert_eq!(*running.ended.lock(), [4], "DEADLINE_EXCEEDED");
    })
    .await;
}

#[tokio::test]
async fn a_connection_without_streams_goes_and_the_next_stream_has_a_new_one() {
    let limits = Limits { idle: soon(), answer: soon(), ..short() };
    limited(limits, |running| async move {
        let client = client(&running);
        for _ in 0..2 {
            let mut exchange = client.open().await.unwrap();
            exchange.send(request("/x")).await.unwrap();
            next(&mut exchange).await;
            exchange.send(chunk(b"body", true)).await.unwrap();
            next(&mut exchange).await;
            // A stream keeps its connection.
            tokio::time::sleep(3 * soon()).await;
            exchange.send(chunk(b"more", true)).await.unwrap();
            next(&mut exchange).await;
            drop(exchange);
            tokio::time::sleep(5 * soon()).await;
        }
        let mut idle = connect(&running).await;
        idle.write_all(PREFACE).await.unwrap();
        idle.write_all(&SETTINGS).await.unwrap();
        idle.write_all(&headers(1)).await.unwrap();
        // RST_STREAM: the connection has no stream any more.
        idle.write_all(&[0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8]).await.unwrap();
        closed(&mut idle).await;
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_is_gone_leaves_no_stream_behind() {
    let limits = Limits { silence: soon(), answer: soon(), ..short() };
    limited(limits, |running| async move {
        let mut gone = connect(&running).await;
        gone.write_all(PREFACE).await.unwrap();
        gone.write_all(&SETTINGS).await.unwrap();
        gone.write_all(&headers(1)).await.unwrap();
        // It answers no ping, as a machine without power.
        timeout(TEST_TIMEOUT, running.closed.notified()).await.unwrap();
        closed(&mut gone).await;
        let client = client(&running);
        let mut exchange = client.open().await.unwrap();
        exchange.send(request("/x")).await.unwrap();
        next(&mut exchange).await;
        tokio::time::sleep(5 * soon()).await;
        exchange.send(chunk(b"still here", true)).await.unwrap();
        next(&mut exchange).await;
    })
    .await;
}

#[tokio::test]
async fn streams_beyond_the_limit_are_unavailable_until_others_end() {
    let limits = Limits { streams: 2, ..short() };
    limited(limits, |running| async move {
        let (one, other) = (client(&running), client(&running));
        let mut held = Vec::new();
        for client in [&one, &other] {
            let mut exchange = client.open().await.unwrap();
            exchange.send(request("/x")).await.unwrap();
            next(&mut exchange).await;
            held.push(exchange);
        }
        let refused = async {
            let mut third = one.open().await?;
            third.send(request("/x")).await?;
            third.receive().await
        };
        let refused = timeout(TEST_TIMEOUT, refused).await.unwrap();
        assert!(
            matches!(&refused, Err(ClientError::Status { message, .. }) if message == "too many streams"),
            "{refused:?}"
        );
        assert_eq!(
            running.refused.load(std::sync::atomic::Ordering::SeqCst),
            1,
            "the processor does not know"
        );
        held.clear();
        timeout(TEST_TIMEOUT, running.closed.notified()).await.unwrap();
        let mut next_one = one.open().await.unwrap();
        next_one.send(request("/x")).await.unwrap();
        next(&mut next_one).await;
    })
    .await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_until_others_are_closed() {
    let limits = Limits { connections: 3, first: Duration::from_millis(500), ..short() };
    limited(limits, |running| async move {
        let mut idle = Vec::new();
        for _ in 0..12 {
            idle.push(connect(&running).await);
        }
        // Nine more are let in as the first are closed, and then this one.
        let mut exchange = client(&running).open().await.unwrap();
        exchange.send(request("/x")).await.unwrap();
        next(&mut exchange).await;
        for stream in &mut idle {
            closed(stream).await;
        }
    })
    .await;
}

#[tokio::test]
async fn messages_that_do_not_end_share_one_memory() {
    let test = |running: ServerFixture| async move {
        let piece = vec![7; 16 << 10];
        let mut callers = Vec::new();
        for _ in 0..8 {
            let mut caller = connect(&running).await;
            caller.write_all(PREFACE).await.unwrap();
            caller.write_all(&SETTINGS).await.unwrap();
            // The acknowledgement of the server's settings: its windows count from here on.
            assert!(caller.read(&mut [0; 256]).await.unwrap() > 0);
            caller.write_all(&[0, 0, 0, 4, 1, 0, 0, 0, 0]).await.unwrap();
            caller.write_all(&headers(1)).await.unwrap();
            // A message of 1 MB is announced, and a quarter of it comes.
            caller.write_all(&[0, 0, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0x10, 0, 0]).await.unwrap();
            for _ in 0..16 {
                caller.write_all(&[0, 0x40, 0, 0, 0, 0, 0, 0, 1]).await.unwrap();
                caller.write_all(&piece).await.unwrap();
            }
            callers.push(caller);
        }
        timeout(TEST_TIMEOUT, running.closed.notified()).await.unwrap();
        assert!(running.ended.lock().iter().all(|status| *status == 2), "UNKNOWN");
        drop(callers);
        let mut exchange = client(&running).open().await.unwrap();
        exchange.send(request("/x")).await.unwrap();
        next(&mut exchange).await;
    };
    let options = ServerOptions { limits: short(), memory: Budget::new(1 << 20), ..ServerOptions::default() };
    test(echo(options).await).await;
}

/// Starts a processor that opens connections and then stands still, as a process that is stopped.
async fn frozen() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(&SETTINGS).await.unwrap();
            open.push(stream);
        }
    });
    address
}

#[tokio::test(start_paused = true)]
async fn a_processor_that_stands_still_is_given_up() {
    let client = Client::new(frozen().await, None);
    let mut exchange = client.open().await.unwrap();
    exchange.send(request("/")).await.unwrap();
    let reply = timeout(Duration::from_mins(6), exchange.receive()).await;
    assert!(matches!(reply, Ok(Err(ClientError::Broken { .. }))), "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_connection_share_its_failure() {
    longboat_tls::install_default_provider();
    let client = Client::new(frozen().await, Some(longboat_tls::insecure_client_config(&[b"h2"])));
    let opening = futures::future::join_all((0..50).map(|_| client.open()));
    let opened = timeout(Duration::from_secs(10), opening).await.expect("one attempt after the other");
    assert!(opened.iter().all(|opened| matches!(opened, Err(ClientError::Connect { .. }))));
}
