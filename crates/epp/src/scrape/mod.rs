//! Scrapes the metrics of every endpoint at short intervals.
//!
//! One task per endpoint keeps one connection. Each task has its own offset within the interval, so that a hundred endpoints
//! are not scraped in the same millisecond.

use std::{collections::HashMap, ops::Range, sync::Arc, time::Duration};

use longboat_scheduler::{
    Metrics,
    config::{DataLayer, EngineConfig},
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::{AbortHandle, JoinSet},
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use crate::{core::Core, pool::Member};

mod page;
mod reply;

pub(crate) use page::extract;
pub(crate) use reply::Reply;

/// The time for one scrape, as in the reference. A server that takes longer counts as unhealthy.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The longest page. Real pages are far shorter.
const MAX_PAGE: usize = 4 << 20;
/// The largest buffer that a connection keeps for its next page. A larger one is released.
const KEPT: usize = 512 << 10;
/// The space for one read.
const PIECE: usize = 32 << 10;
/// The longest wait before an unreachable endpoint is tried again.
const MAX_BACKOFF: Duration = Duration::from_millis(500);

/// What to scrape, and how.
pub(crate) struct Scraper {
    pub(crate) layer: DataLayer,
    pub(crate) interval: Duration,
    pub(crate) tls: Arc<rustls::ClientConfig>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Scraper {
    /// Scrapes the current members of the pool until shutdown.
    pub(crate) async fn run(self, core: Arc<Core>, shutdown: CancellationToken) {
        let scraper = Arc::new(self);
        let mut changes = core.pool.changes();
        let mut tasks = JoinSet::new();
        let mut running: HashMap<usize, (Arc<Member>, AbortHandle)> = HashMap::new();
        loop {
            let members = core.pool.members();
            running.retain(|_, (member, task)| {
                let stays = members.iter().any(|current| Arc::ptr_eq(current, member));
                if !stays {
                    task.abort();
                }
                stays
            });
            for member in members.iter() {
                running.entry(Arc::as_ptr(member) as usize).or_insert_with(|| {
                    let endpoint = Arc::clone(&scraper).endpoint(Arc::clone(member), Arc::clone(&core));
                    (Arc::clone(member), tasks.spawn(endpoint))
                });
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                ended = changes.changed() => if ended.is_err() { break },
                Some(_) = tasks.join_next() => {}
            }
        }
        tasks.shutdown().await;
    }

    async fn endpoint(self: Arc<Self>, member: Arc<Member>, core: Arc<Core>) {
        let Some(engine) = self.engine(&member) else {
            tracing::error!(
                endpoint = member.endpoint.host_port,
                "No metric names are known for this engine."
            );
            return;
        };
        let mut metrics = Metrics::default();
        let mut connection = None;
        let mut failures = 0_u32;
        // The first scrape is immediate, so that a new endpoint takes part in scheduling. The following scrapes have the
        // offset.
        let offset = self.interval.mul_f64(f64::from(member.endpoint.slot.0 % 16) / 16.0);
        let mut ticks = tokio::time::interval_at(Instant::now() + offset, self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let scrape = self.scrape(&member, engine, &mut connection, &mut metrics);
            match tokio::time::timeout(TIMEOUT, scrape).await {
                Ok(Ok(complete)) => {
                    failures = 0;
                    if !complete {
                        core.metrics.extract_failed();
                    }
                    member.scraped(metrics.clone());
                }
                failed => {
                    connection = None;
                    core.metrics.poll_failed();
                    if failures == 0 {
                        let endpoint = &member.endpoint.host_port;
                        if let Ok(Err(error)) = failed {
                            tracing::debug!(endpoint, %error, "Cannot read metrics.");
                        } else {
                            tracing::debug!(endpoint, "Metrics did not come in time.");
                        }
                    }
                    failures = (failures + 1).min(10);
                    tokio::time::sleep(MAX_BACKOFF.min(self.interval * (1 << failures.min(4)) / 2)).await;
                }
            }
            ticks.tick().await;
        }
    }

    /// Returns the metric names of an endpoint's engine. The configuration check makes sure that the default engine has them.
    fn engine(&self, member: &Member) -> Option<&EngineConfig> {
        let labels = &member.endpoint.labels;
        let named = self
            .layer
            .engine_labels
            .iter()
            .find_map(|label| labels.get(label))
            .and_then(|engine| self.layer.engines.get(engine));
        named.or_else(|| self.layer.engines.get(&self.layer.default_engine))
    }

    /// Reads a page into the metrics of an endpoint. Returns whether the page had the metrics that every engine should have.
    async fn scrape(
        &self,
        member: &Member,
        engine: &EngineConfig,
        connection: &mut Option<Connection>,
        metrics: &mut Metrics,
    ) -> Result<bool, BoxError> {
        if let Some(open) = connection.as_mut().filter(|open| open.keeps) {
            match open.page().await {
                Ok(page) => return Ok(open.read(page, engine, metrics)),
                // A server may close an idle connection. The scrape is then repeated on a new one.
                Err(_) if open.buffer.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        let open = connection.insert(self.connect(member).await?);
        let page = open.page().await?;
        Ok(open.read(page, engine, metrics))
    }

    async fn connect(&self, member: &Member) -> Result<Connection, BoxError> {
        let mut address = member.endpoint.address;
        if self.layer.source.port != 0 {
            address.set_port(self.layer.source.port);
        }
        let path = &self.layer.source.path;
        let uri: http::Uri = path.parse()?;
        let request = format!("GET {uri} HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes();
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Socket> = if self.layer.source.scheme == "https" {
            let name = ServerName::IpAddress(address.ip().into());
            let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
            Box::new(connector.connect(name, stream).await?)
        } else {
            Box::new(stream)
        };
        Ok(Connection { stream, request, buffer: Vec::new(), keeps: true })
    }
}

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A kept-alive connection with a buffer that each page is read into. A general HTTP client creates a request, a response and a
/// body each time, which costs more than reading the page.
struct Connection {
    stream: Box<dyn Socket>,
    request: Vec<u8>,
    buffer: Vec<u8>,
    /// Whether the connection can be used again.
    keeps: bool,
}

impl Connection {
    /// Extracts the metrics from the page in this range of the buffer.
    fn read(&mut self, page: Range<usize>, engine: &EngineConfig, metrics: &mut Metrics) -> bool {
        let complete = extract(&self.buffer[page], engine, metrics);
        if self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        complete
    }

    /// Requests the page and returns its range in the buffer. If the call fails or is cancelled, the connection cannot be used
    /// again.
    async fn page(&mut self) -> Result<Range<usize>, BoxError> {
        self.keeps = false;
        self.buffer.clear();
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        let mut reply = Reply::default();
        loop {
            if self.buffer.capacity() - self.buffer.len() < PIECE / 2 {
                self.buffer.reserve(PIECE);
            }
            let ended = self.stream.read_buf(&mut self.buffer).await? == 0;
            if let Some(page) = reply.look(&mut self.buffer, ended, MAX_PAGE)? {
                self.keeps = reply.keeps();
                return Ok(page);
            }
        }
    }
}
