//! Servers for downloads, with faults on demand: a hub with a CDN, object stores, a registry, and plain web servers.
#![allow(dead_code, reason = "each test uses some of them")]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::format_collect,
    clippy::format_push_string,
    clippy::struct_excessive_bools,
    clippy::unused_self,
    unreachable_pub,
    reason = "these are for tests, which should stop where they cannot go on"
)]

pub mod contents;
pub mod hub;
pub mod proxy;
pub mod registry;
pub mod store;
pub mod web;

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use regex::Regex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    time::sleep,
};

/// A request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub server: &'static str,
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: BTreeMap<String, String>,
    pub tls: bool,
    /// The status of the response.
    pub status: u16,
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Arc<Vec<u8>>,
    /// Whether ranges of the body may be requested.
    pub ranges: bool,
}

/// A fault, and the requests that it affects.
#[derive(Debug)]
pub struct Fault {
    pub server: String,
    pub method: Option<String>,
    pub path: Option<Regex>,
    pub range: Option<Regex>,
    pub skip: u64,
    pub times: u64,
    pub effect: Effect,
}

/// The effect of a fault.
#[derive(Debug, Clone, Default)]
pub struct Effect {
    pub status: Option<u16>,
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub drop: bool,
    pub reset_after: Option<usize>,
    pub close_after: Option<usize>,
    pub stall_after: Option<usize>,
    pub stall_seconds: u64,
    pub corrupt: Option<usize>,
    /// Bytes a second.
    pub throttle: Option<usize>,
    pub ignore_range: bool,
    pub no_length: bool,
}

type Handler = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// All servers of a test.
#[derive(Default)]
pub struct Servers {
    pub log: Mutex<Vec<Request>>,
    pub faults: Mutex<Vec<Fault>>,
    /// The number of body bytes that were sent.
    pub sent: AtomicU64,
}

// === impl Request ===

impl Request {
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }

    /// A value of the query, decoded.
    pub fn query(&self, name: &str) -> Option<String> {
        let query = self.target.split_once('?')?.1;
        query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then(|| decoded(value))
        })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// Decodes percent-encoding.
pub fn decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

// === impl Answer ===

impl Answer {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: Arc::new(body.into()), ..Self::default() }
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// A file that supports range requests.
    pub fn file(body: &Arc<Vec<u8>>) -> Self {
        Self { status: 200, body: body.clone(), ranges: true, ..Self::default() }
    }
}

// === impl Servers ===

impl Servers {
    /// Starts a server on the loopback address, and returns its address.
    pub async fn serve(self: &Arc<Self>, name: &'static str, handler: Handler) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let servers = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Head and body are written separately. Nagle's algorithm would delay the body until the client's
                // acknowledgement.
                stream.set_nodelay(true).unwrap();
                let (servers, handler) = (servers.clone(), handler.clone());
                tokio::spawn(async move {
                    let _ = servers.connection(name, false, stream, handler).await;
                });
            }
        });
        address
    }

    /// Like [`Self::serve`], with TLS.
    pub async fn serve_tls(
        self: &Arc<Self>,
        name: &'static str,
        handler: Handler,
        tls: tokio_rustls::TlsAcceptor,
    ) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let servers = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (servers, handler, tls) = (servers.clone(), handler.clone(), tls.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = tls.accept(stream).await {
                        let _ = servers.connection(name, true, stream, handler).await;
                    }
                });
            }
        });
        address
    }

    async fn connection(
        &self,
        name: &'static str,
        tls: bool,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        handler: Handler,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        loop {
            let head = loop {
                if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                    let head: Vec<u8> = buffer.drain(..end + 4).collect();
                    break String::from_utf8_lossy(&head).into_owned();
                }
                if stream.read_buf(&mut buffer).await? == 0 {
                    return Ok(());
                }
            };
            let mut request = parsed(&head, name, tls);
            let length: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
            while buffer.len() < length {
                if stream.read_buf(&mut buffer).await? == 0 {
                    return Ok(());
                }
            }
            buffer.drain(..length);
            let effect = self.fault(&request);
            if effect.drop {
                return Ok(());
            }
            let mut answer = match effect.status {
                Some(status) => Answer {
                    headers: effect.headers.clone(),
                    ..Answer::new(status, effect.body.clone().into_bytes())
                },
                None => handler(&request),
            };
            let (mut start, mut end) = (0, answer.body.len());
            if answer.ranges && answer.status == 200 {
                answer.headers.push(("Accept-Ranges".into(), "bytes".into()));
                if let Some(range) = request.header("range").filter(|_| !effect.ignore_range)
                    && if_range(&request, &answer)
                {
                    match ranged(range, answer.body.len()) {
                        Some((from, to)) => {
                            (start, end) = (from, to);
                            answer.status = 206;
                            let range = format!("bytes {from}-{}/{}", to - 1, answer.body.len());
                            answer.headers.push(("Content-Range".into(), range));
                        }
                        None => answer = Answer::new(416, ""),
                    }
                    end = end.min(answer.body.len());
                }
            }
            request.status = answer.status;
            self.log.lock().push(request.clone());
            let mut head = format!("HTTP/1.1 {} X\r\n", answer.status);
            for (name, value) in &answer.headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            let has_length =
                answer.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            if !effect.no_length && !has_length {
                head.push_str(&format!("Content-Length: {}\r\n", end - start));
            }
            if effect.no_length {
                head.push_str("Connection: close\r\n");
            }
            head.push_str("\r\n");
            stream.write_all(head.as_bytes()).await?;
            if request.method != "HEAD"
                && !self.body(&mut stream, &answer.body[start..end], start, &effect).await?
            {
                stream.flush().await?;
                return Ok(());
            }
            stream.flush().await?;
            if effect.no_length {
                return Ok(());
            }
        }
    }

    /// Sends a body. Returns whether the connection stays open.
    async fn body(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        body: &[u8],
        start: usize,
        effect: &Effect,
    ) -> io::Result<bool> {
        let stop = effect.reset_after.or(effect.close_after).or(effect.stall_after);
        let length = stop.unwrap_or(usize::MAX).min(body.len());
        let mut at = 0;
        while at < length {
            let piece = effect.throttle.map_or(256 << 10, |rate| (rate / 50).max(1)).min(length - at);
            let mut bytes = body[at..at + piece].to_vec();
            if let Some(wrong) = effect.corrupt
                && (start + at..start + at + piece).contains(&wrong)
            {
                bytes[wrong - start - at] ^= 1;
            }
            stream.write_all(&bytes).await?;
            self.sent.fetch_add(piece as u64, Ordering::Relaxed);
            at += piece;
            if effect.throttle.is_some() {
                sleep(Duration::from_millis(20)).await;
            }
        }
        if effect.stall_after.is_some_and(|after| after < body.len()) {
            stream.flush().await?;
            sleep(Duration::from_secs(effect.stall_seconds)).await;
        }
        Ok(length == body.len())
    }

    fn fault(&self, request: &Request) -> Effect {
        let mut faults = self.faults.lock();
        let fits = |fault: &Fault| {
            fault.server == request.server
                && fault.method.as_ref().is_none_or(|method| *method == request.method)
                && fault.path.as_ref().is_none_or(|path| path.is_match(&request.target))
                && fault
                    .range
                    .as_ref()
                    .is_none_or(|range| request.header("range").is_some_and(|text| range.is_match(text)))
                && fault.times > 0
        };
        let Some(fault) = faults.iter_mut().find(|fault| fits(fault)) else { return Effect::default() };
        if fault.skip > 0 {
            fault.skip -= 1;
            return Effect::default();
        }
        fault.times -= 1;
        fault.effect.clone()
    }
}

fn if_range(request: &Request, answer: &Answer) -> bool {
    let etag = answer
        .headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("etag"))
        .map(|(_, value)| value.as_str());
    request.header("if-range").is_none_or(|wanted| Some(wanted) == etag)
}

fn ranged(text: &str, length: usize) -> Option<(usize, usize)> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let from: usize = from.parse().ok()?;
    let to = if to.is_empty() { length } else { to.parse::<usize>().ok()? + 1 };
    (from < length && from < to).then(|| (from, to.min(length)))
}

fn parsed(head: &str, server: &'static str, tls: bool) -> Request {
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
    Request { server, method: method.into(), target: target.into(), headers, tls, status: 0 }
}
