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
use longboat_accept::Guard;
use longboat_key::Key;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    args::SharedArgs,
    page::{MAX_PAGE_BYTES, PoolLabels, merged, refusals_page},
};
use crate::{
    Error,
    host::{LocalPickers, Pages},
    monitoring::{MAX_CONNECTIONS, connection, metrics_page, open_metrics, plain, refused},
    ports,
};

/// The names of services, by their pools.
pub(super) type ServiceNames = Arc<ArcSwap<BTreeMap<Key, String>>>;

/// What pools were refused, by limit.
pub(super) type PoolRefusals = Arc<ArcSwap<BTreeMap<Key, [u64; 2]>>>;

/// What the port serves.
pub(super) struct Monitoring {
    /// Whether the replica can take pools.
    pub(super) is_ready: Arc<AtomicBool>,
    pub(super) local: Arc<LocalPickers>,
    pub(super) pages: Pages,
    pub(super) names: ServiceNames,
    pub(super) refusals: PoolRefusals,
    pub(super) max_bytes: usize,
    pub(super) max_requests: usize,
}

// === impl Monitoring ===

impl Monitoring {
    /// Serves until `end`.
    pub(super) async fn run(self, listener: TcpListener, end: CancellationToken) {
        let this = Arc::new(self);
        let guard = listener.local_addr().ok().and_then(Guard::of_back_end).map(Arc::new);
        let accepted = |stream, _| {
            let (this, guard) = (this.clone(), guard.clone());
            async move {
                let this = &*this;
                connection(stream, guard.as_deref(), |request| async move { this.answer(&request).await })
                    .await;
            }
        };
        longboat_accept::until(&end, listener, MAX_CONNECTIONS, accepted).await.shutdown().await;
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
            "/readyz" if self.is_ready.load(Ordering::Acquire) => plain(StatusCode::OK, "ok"),
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
        let (mut page, omitted) = merged(pages, MAX_PAGE_BYTES);
        for (name, help, value) in [
            ("pools", "Pools whose picker runs in this replica", self.local.count()),
            ("serving_pools", "Pools whose picker takes requests", self.local.serving(None).len()),
            ("pool_request_limit", "Most open requests of one pool", self.max_requests),
            ("pool_bytes_limit", "Most bytes of requests of one pool", self.max_bytes),
            ("omitted_metrics", "Metrics of all pools that this page has no room for", omitted),
        ] {
            let name = format!("longboat_shared_picker_{name}");
            let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n");
        }
        page.push_str(&refusals_page(&self.refusals.load(), &names));
        page.push_str("# EOF\n");
        page
    }
}

/// Binds the port: on all addresses, so that `kubectl port-forward` finds it, or on the loopback address of the pod.
pub(super) async fn bind(args: &SharedArgs) -> Result<TcpListener, Error> {
    let ip = match args.pod_ip {
        own if own.is_loopback() => own,
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    ports::listen(ip, args.monitoring_port).await.map(|(listener, _)| listener)
}
