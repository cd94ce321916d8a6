//! Reads the metrics of every endpoint, often.
//!
//! One task per endpoint keeps one connection and starts at its own offset within the interval, so that a hundred
//! endpoints are not read in the same millisecond.

use std::{collections::HashMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use longboat_scheduler::{
    Metrics,
    config::{DataLayer, EngineConfig},
};
use rustls::pki_types::ServerName;
use tokio::{
    net::TcpStream,
    task::{AbortHandle, JoinSet},
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;

use crate::{core::Core, pool::Member};

mod page;

pub(crate) use page::extract;

/// As upstream: a server that does not answer within this is not well.
const TIMEOUT: Duration = Duration::from_secs(1);
/// No honest page is longer.
const MAX_PAGE: usize = 16 << 20;
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
    /// Scrapes the members of the pool, whoever they are, until shutdown.
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
        // At once, so that a new endpoint takes part; then at its own offset.
        let offset = self.interval.mul_f64(f64::from(member.endpoint.slot.0 % 16) / 16.0);
        let mut ticks = tokio::time::interval_at(Instant::now() + offset, self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            match tokio::time::timeout(TIMEOUT, self.page(&member, &mut connection)).await {
                Ok(Ok(page)) => {
                    failures = 0;
                    extract(&page, engine, &mut metrics);
                    member.scraped(metrics.clone());
                }
                failed => {
                    connection = None;
                    core.metrics.poll_failed();
                    if failures == 0 {
                        let endpoint = &member.endpoint.host_port;
                        if let Ok(Err(error)) = failed {
                            tracing::debug!(endpoint, error, "Cannot read metrics.");
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

    /// The metric names of an endpoint. The default engine always has some: that is checked with the configuration.
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

    async fn page(&self, member: &Member, connection: &mut Option<Connection>) -> Result<Bytes, String> {
        let open = match connection {
            Some(open) if !open.requests.is_closed() => open,
            _ => connection.insert(self.connect(member).await.map_err(|error| error.to_string())?),
        };
        open.get(&self.layer.source.path).await.map_err(|error| error.to_string())
    }

    async fn connect(&self, member: &Member) -> Result<Connection, BoxError> {
        let mut address = member.endpoint.address;
        if self.layer.source.port != 0 {
            address.set_port(self.layer.source.port);
        }
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        if self.layer.source.scheme == "https" {
            let name = ServerName::IpAddress(address.ip().into());
            let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
            let stream = connector.connect(name, stream).await?;
            Connection::handshake(TokioIo::new(stream), address.to_string()).await
        } else {
            Connection::handshake(TokioIo::new(stream), address.to_string()).await
        }
    }
}

/// A kept-alive connection, driven by whoever waits for a page.
struct Connection {
    requests: http1::SendRequest<Empty<Bytes>>,
    driver: Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>,
    host: String,
}

impl Connection {
    async fn handshake<I>(io: I, host: String) -> Result<Self, BoxError>
    where
        I: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    {
        let (requests, driver) = http1::handshake(io).await?;
        Ok(Self { requests, driver: Box::pin(driver), host })
    }

    async fn get(&mut self, path: &str) -> Result<Bytes, BoxError> {
        let request = http::Request::get(path).header(http::header::HOST, &self.host).body(Empty::new())?;
        let requests = &mut self.requests;
        let exchange = async {
            let response = requests.send_request(request).await?;
            if !response.status().is_success() {
                return Err(format!("status {}", response.status()).into());
            }
            let body = Limited::new(response.into_body(), MAX_PAGE).collect().await?;
            Ok(body.to_bytes())
        };
        tokio::select! {
            // The exchange first: a server that closes after its answer has answered.
            biased;
            page = exchange => page,
            ended = &mut self.driver => {
                ended?;
                Err("the connection was closed".into())
            }
        }
    }
}
