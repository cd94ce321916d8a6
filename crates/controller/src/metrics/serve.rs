//! The metrics port.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use kube::Client;
use longboat_api::names::CONTROLLER_METRICS;
use longboat_key::Namespace;
use longboat_metrics::OPENMETRICS;
use longboat_tls::{LeafRequest, ReplaceableConfig, ServerOptions, self_signed};
use longboat_watch::reviews::MetricsReaders;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{page::page, settings::MetricsSettings};
use crate::{context::Context, error::Error};

/// Concurrent connections.
const MAX_CONNECTIONS: usize = 64;
/// How long a TLS handshake or the head of a request may take. An idle connection is closed after it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Validity of the self-signed certificate. Scrapers do not verify it, as with KServe's; it outlives any process.
const VALIDITY_DAYS: u32 = 3650;
/// The metrics port: bound, but not served yet.
pub(crate) struct Monitoring {
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
}

struct MetricsServer {
    context: Arc<Context>,
    /// Decides who may read. `None` allows everybody.
    access: Option<MetricsReaders>,
}

// === impl Monitoring ===

impl Monitoring {
    /// Binds the port, if the settings name one.
    pub(crate) async fn bind(
        settings: &MetricsSettings,
        options: &ServerOptions,
        namespace: Namespace<&str>,
    ) -> Result<Option<Self>, Error> {
        let Some(listener) = settings.address.bind("metrics").await? else { return Ok(None) };
        let tls = if settings.secure {
            let host = format!("{CONTROLLER_METRICS}.{namespace}.svc");
            let request = LeafRequest {
                common_name: host.clone(),
                dns_names: vec![host, "localhost".to_owned()],
                ips: vec![[127, 0, 0, 1].into()],
                days: VALIDITY_DAYS,
                ..LeafRequest::default()
            };
            // One scrape at a time needs no HTTP/2, whose idle connections would have to be limited.
            let options = ServerOptions { alpn: vec![b"http/1.1".to_vec()], ..options.clone() };
            Some(ReplaceableConfig::new(&self_signed(&request)?, &options)?.config())
        } else {
            if listener.local_addr().is_ok_and(|address| !address.ip().is_loopback()) {
                tracing::warn!(
                    address = %settings.address,
                    "Every client that reaches the port may read the metrics, because of \
                     --metrics-secure=false."
                );
            }
            None
        };
        Ok(Some(Self { listener, tls }))
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Serves until `end`.
    pub(crate) async fn serve(self, context: Arc<Context>, client: Client, end: CancellationToken) {
        let Self { listener, tls } = self;
        let served =
            Arc::new(MetricsServer { context, access: tls.is_some().then(|| MetricsReaders::new(client)) });
        let connection = |stream, peer| {
            let (served, tls, end) = (served.clone(), tls.clone(), end.clone());
            async move {
                let served = &*served;
                let answer = |request| async move { Ok::<_, Infallible>(served.answer(&request).await) };
                let accepted = longboat_tls::accept(tls, stream, peer, HEAD_TIMEOUT, &end);
                if let Some(stream) = accepted.await {
                    longboat_accept::serve_http1(stream, HEAD_TIMEOUT, service_fn(answer)).await;
                }
            }
        };
        longboat_accept::until(&end, listener, MAX_CONNECTIONS, connection).await.shutdown().await;
    }
}

// === impl MetricsServer ===

impl MetricsServer {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        match self.page(request).await {
            Ok(page) => {
                let mut response = Response::new(Full::from(page));
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
                response
            }
            Err(status) => {
                let text = status.canonical_reason().unwrap_or_default();
                let mut response = Response::new(Full::from(text));
                *response.status_mut() = status;
                response
            }
        }
    }

    async fn page(&self, request: &Request<Incoming>) -> Result<String, StatusCode> {
        if request.uri().path() != "/metrics" {
            return Err(StatusCode::NOT_FOUND);
        }
        if request.method() != Method::GET {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        if let Some(access) = &self.access {
            let header = request.headers().get(header::AUTHORIZATION);
            access.check(header.and_then(|value| value.to_str().ok())).await?;
        }
        Ok(page(&self.context))
    }
}
