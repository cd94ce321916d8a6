//! The port of a replica for probes and pages: `/healthz`, `/readyz` and `/metrics`, which has the series of all
//! pools, and the pages of single pools (`Pages`).

use std::{
    collections::BTreeMap,
    fmt::Write,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use kube::Client;
use longboat_accept::Guard;
use longboat_key::Key;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    args::SharedArgs,
    page::{PoolLabels, merged, refusals_page},
};
use crate::{
    Error,
    host::{LocalPickers, Pages},
    monitoring::{MAX_CONNECTIONS, connection, metrics_page, open_metrics, plain, refused},
    ports,
};

/// Whether a replica can take pools.
#[derive(Debug, Clone, Default)]
pub(super) struct Readiness(Arc<AtomicBool>);

/// The names of services, by their pools.
pub(super) type ServiceNames = Arc<ArcSwap<BTreeMap<Key, String>>>;

/// What pools were refused, by limit.
pub(super) type PoolRefusals = Arc<ArcSwap<BTreeMap<Key, [u64; 2]>>>;

/// What the port serves.
pub(super) struct Monitoring {
    readiness: Readiness,
    local: Arc<LocalPickers>,
    pages: Pages,
    names: ServiceNames,
    refusals: PoolRefusals,
    max_bytes: usize,
    max_requests: usize,
}

/// A port that is bound.
pub(super) struct Bound {
    monitoring: Monitoring,
    listener: TcpListener,
}

// === impl Readiness ===

impl Readiness {
    pub(super) fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }
}

// === impl Monitoring ===

impl Monitoring {
    pub(super) fn new(
        args: &SharedArgs,
        client: Client,
        local: Arc<LocalPickers>,
        readiness: Readiness,
        (names, refusals): (ServiceNames, PoolRefusals),
    ) -> Self {
        // A loopback address is for the user of this machine.
        let pages = if args.pod_ip.is_loopback() { Pages::open() } else { Pages::new(client) };
        let (max_bytes, max_requests) = (args.max_pool_bytes, args.max_pool_requests);
        Self { readiness, local, pages, names, refusals, max_bytes, max_requests }
    }

    /// Binds the port: on all addresses, so that `kubectl port-forward` finds it, or on the loopback address of the pod.
    pub(super) async fn bind(self, args: &SharedArgs) -> Result<Bound, Error> {
        let ip = match args.pod_ip {
            own if own.is_loopback() => own,
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let (listener, _) = ports::listen(ip, args.monitoring_port).await?;
        Ok(Bound { monitoring: self, listener })
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if let Some(page) = self.pages.of_pools(&self.local, request).await {
            return page;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "expected GET\n");
        }
        match request.uri().path() {
            "/healthz" => plain(StatusCode::OK, "ok"),
            "/readyz" if self.readiness.0.load(Ordering::Acquire) => plain(StatusCode::OK, "ok"),
            "/readyz" => plain(StatusCode::SERVICE_UNAVAILABLE, "nothing is listed yet, or shutting down\n"),
            "/metrics" => match self.pages.may_read(request.headers()).await {
                Ok(()) => open_metrics(self.metrics()),
                Err(status) => refused(status),
            },
            _ => plain(
                StatusCode::NOT_FOUND,
                "not found; use /healthz, /readyz, /metrics, /debug/decisions or /pools/NAMESPACE/NAME/metrics\n",
            ),
        }
    }

    /// The numbers of all pools, and those of the replica.
    fn metrics(&self) -> String {
        let (names, pools) = (self.names.load(), self.local.pools());
        let pages = pools.iter().filter_map(|pool| {
            let picker = self.local.serving(Some(pool)).into_iter().next()?;
            let labels = PoolLabels { namespace: &pool.namespace, service_name: names.get(pool)? };
            Some((labels, metrics_page(&picker.core)))
        });
        let mut page = merged(pages);
        for (name, help, value) in [
            ("pools", "Pools whose picker runs in this replica", self.local.count()),
            ("serving_pools", "Pools whose picker takes requests", self.local.serving(None).len()),
            ("pool_request_limit", "Most open requests of one pool", self.max_requests),
            ("pool_bytes_limit", "Most bytes of requests of one pool", self.max_bytes),
        ] {
            let name = format!("longboat_shared_picker_{name}");
            let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n");
        }
        page.push_str(&refusals_page(&self.refusals.load(), &names));
        page.push_str("# EOF\n");
        page
    }
}

// === impl Bound ===

impl Bound {
    /// Serves until `end`.
    pub(super) async fn run(self, end: CancellationToken) {
        let this = Arc::new(self.monitoring);
        let guard = self.listener.local_addr().ok().and_then(Guard::of_back_end).map(Arc::new);
        let accepted = |stream, _| {
            let (this, guard) = (this.clone(), guard.clone());
            async move {
                let this = &*this;
                connection(stream, guard.as_deref(), |request| async move { this.answer(&request).await })
                    .await;
            }
        };
        longboat_accept::until(&end, self.listener, MAX_CONNECTIONS, accepted).await.shutdown().await;
    }
}
