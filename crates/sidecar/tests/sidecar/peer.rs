//! Engines and clients that speak bytes.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::fixture::CHAT;

/// What an engine that breaks the protocol does once it has read a request.
#[derive(Clone)]
pub(crate) enum Then {
    /// Closes the connection after the answer.
    Close,
    /// Waits until the other side closes it.
    Wait,
    /// Sends this again and again.
    Repeat(String),
}

/// An engine that answers every request with the same bytes.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<AtomicUsize>,
    /// Connections that the other side has left.
    pub(crate) left: Arc<AtomicUsize>,
    /// The requests, or the first part of long ones.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    pub(crate) async fn start(answer: String, then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, left) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let peer = Self { address, asked: asked.clone(), left: left.clone(), seen: seen.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, then) = (answer.clone(), then.clone());
                let (asked, left, seen) = (asked.clone(), left.clone(), seen.clone());
                tokio::spawn(async move {
                    // Dropped without a byte: a probe.
                    if serve(stream, &answer, then, &asked, &seen).await.is_some() {
                        left.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        peer
    }

    /// The request that came last.
    pub(crate) fn last(&self) -> String {
        self.seen.lock().last().cloned().expect("a request")
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// One connection; none: nobody asked on it.
async fn serve(
    mut stream: TcpStream,
    answer: &str,
    then: Then,
    asked: &AtomicUsize,
    seen: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut buffer = vec![0; 1 << 16];
    let read = stream.read(&mut buffer).await.ok()?;
    if read == 0 {
        return None;
    }
    seen.lock().push(String::from_utf8_lossy(&buffer[..read]).into_owned());
    asked.fetch_add(1, Ordering::SeqCst);
    let mut is_written = stream.write_all(answer.as_bytes()).await.is_ok();
    match then {
        Then::Close => {}
        Then::Wait => while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {},
        Then::Repeat(more) => {
            while is_written {
                is_written = stream.write_all(more.as_bytes()).await.is_ok();
            }
        }
    }
    Some(())
}

/// Waits until a number is reached.
pub(crate) async fn until(what: &str, number: &AtomicUsize, least: usize) {
    for _ in 0..1000 {
        if number.load(Ordering::SeqCst) >= least {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: {} of {least}", number.load(Ordering::SeqCst));
}

pub(crate) fn json_answer(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends bytes: what comes back until the other side closes.
pub(crate) async fn exchanged(port: u16, bytes: &str) -> String {
    sent(port, bytes, false).await
}

/// The same; `is_all` says that no more bytes come.
pub(crate) async fn sent(port: u16, bytes: &str, is_all: bool) -> String {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let bytes = bytes.to_owned();
    let sending = tokio::spawn(async move {
        let _ = writing.write_all(bytes.as_bytes()).await;
        if is_all {
            let _ = writing.shutdown().await;
        }
        writing
    });
    let mut answer = Vec::new();
    let _ = reading.read_to_end(&mut answer).await;
    drop(sending.await);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A request with `body`, which is to be prefilled there if that is given.
pub(crate) fn asked(prefill: Option<SocketAddr>, body: &str) -> String {
    let prefill = prefill.map(|address| format!("x-prefiller-host-port: {address}\r\n")).unwrap_or_default();
    let length = body.len();
    format!(
        "POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{prefill}Content-Length: {length}\r\n\r\n{body}"
    )
}
