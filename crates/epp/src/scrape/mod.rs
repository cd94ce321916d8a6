//! Scrapes the metrics of every endpoint at short intervals.
//!
//! One task per endpoint keeps one connection. Endpoints are read in groups, each at its own offset within the interval: to wake
//! up costs more than to read a page, and a hundred endpoints are not read in the same millisecond. A group has one timer: to
//! set a timer for each endpoint would also wake up the runtime for each.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Weak},
    time::Duration,
};

use longboat_scheduler::{
    Metrics, Slot,
    config::{DataLayer, EngineConfig},
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    core::Core,
    pool::{Member, for_each_member},
};

mod page;
mod reply;

pub(crate) use page::extract;
pub(crate) use reply::Reply;

/// The time for one scrape, as in the reference. A server that takes longer counts as unhealthy.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The longest page. Real pages are far shorter.
const MAX_PAGE: usize = 4 << 20;
/// The largest buffer that a connection keeps for its next page. A larger one is released.
const MAX_RETAINED_BUFFER_BYTES: usize = 512 << 10;
/// The space for one read.
const READ_CHUNK_BYTES: usize = 32 << 10;
/// Endpoints that are read at the same time.
const GROUP: u32 = 16;
/// Into so many parts the interval is divided.
const PARTS: u32 = 16;
/// How long an endpoint that cannot be reached is left alone at most.
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
        let began = Instant::now();
        let mut clocks: HashMap<u32, Weak<Clock>> = HashMap::new();
        let task = |member: &Arc<Member>| {
            let part = part(member.endpoint.slot);
            let clock = clocks.get(&part).and_then(Weak::upgrade).unwrap_or_else(|| {
                let clock = Arc::new(Clock::start(began, scraper.interval, part));
                clocks.insert(part, Arc::downgrade(&clock));
                clock
            });
            Some(Arc::clone(&scraper).endpoint(Arc::clone(member), Arc::clone(&core), clock))
        };
        // A member with other labels is another one here, because its engine may be another one.
        for_each_member(&core.pool, &shutdown, Arc::ptr_eq, task).await;
    }

    /// Reads an endpoint from now on: at once, so that a new endpoint takes part, and then whenever its group's clock ticks.
    async fn endpoint(self: Arc<Self>, member: Arc<Member>, core: Arc<Core>, clock: Arc<Clock>) {
        let mut ticks = clock.ticks.clone();
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
                            tracing::debug!(endpoint, "Metrics did not arrive in time.");
                        }
                    }
                    // The wait grows from one interval to eight.
                    failures = (failures + 1).min(4);
                    tokio::time::sleep(MAX_BACKOFF.min(self.interval * (1 << failures) / 2)).await;
                }
            }
            // Also an endpoint that was late is read again with its group.
            ticks.mark_unchanged();
            if ticks.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns the metric names of an endpoint's engine. The configuration check makes sure that the default engine has them.
    fn engine(&self, member: &Member) -> Option<&EngineConfig> {
        let labels = &member.endpoint.labels;
        let named = self
            .layer
            .engine_labels
            .iter()
            .find_map(|label| labels.get(label).filter(|engine| !engine.is_empty()))
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

/// The part of the interval in which the endpoint of this slot is read.
fn part(slot: Slot) -> u32 {
    slot.0 / GROUP % PARTS
}

/// Tells the endpoints of a part when to read, while there are such.
struct Clock {
    ticks: watch::Receiver<()>,
    _task: AbortOnDropHandle<()>,
}

impl Clock {
    fn start(began: Instant, interval: Duration, part: u32) -> Self {
        let (sender, ticks) = watch::channel(());
        Self { ticks, _task: AbortOnDropHandle::new(tokio::spawn(tick(began, interval, part, sender))) }
    }
}

/// Ticks when a part is read. `began` is the moment from which all parts count the intervals.
async fn tick(began: Instant, interval: Duration, part: u32, clock: watch::Sender<()>) {
    let mut ticks = tokio::time::interval_at(first_tick(began, Instant::now(), interval, part), interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        clock.send_replace(());
    }
}

/// The first moment after now at which a part is read.
fn first_tick(began: Instant, now: Instant, interval: Duration, part: u32) -> Instant {
    let offset = interval * part / PARTS;
    let intervals = now.duration_since(began).as_nanos() / interval.as_nanos().max(1);
    let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
    began + interval.saturating_mul(intervals.saturating_add(1)) + offset
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
        if self.buffer.capacity() > MAX_RETAINED_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        complete
    }

    /// Requests the page and returns its range in the buffer. If the call fails or is cancelled, the connection cannot be used
    /// again.
    async fn page(&mut self) -> Result<Range<usize>, BoxError> {
        // Until the page is complete, the connection may still bring a part of it to whoever uses it next.
        self.keeps = false;
        self.buffer.clear();
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        let mut reply = Reply::default();
        loop {
            if self.buffer.capacity() - self.buffer.len() < READ_CHUNK_BYTES / 2 {
                self.buffer.reserve(READ_CHUNK_BYTES);
            }
            let ended = self.stream.read_buf(&mut self.buffer).await? == 0;
            if let Some(page) = reply.examine(&mut self.buffer, ended, MAX_PAGE)? {
                self.keeps = reply.keeps();
                return Ok(page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_a_group_are_read_together_whenever_they_came() {
        let (began, interval) = (Instant::now(), Duration::from_millis(50));
        let at = |slot, came: u64| {
            let now = began + Duration::from_millis(came);
            let first = first_tick(began, now, interval, part(Slot(slot)));
            assert!(first > now && first <= now + 2 * interval);
            let since = first - began;
            since.as_micros() % interval.as_micros()
        };
        assert_eq!((at(0, 0), at(15, 7), at(3, 12_349)), (0, 0, 0));
        assert_eq!((at(16, 0), at(31, 777), at(32, 50)), (3125, 3125, 6250));
        assert_eq!(at(16 * 16, 1), 0, "from the first part on again");
    }
}
