//! A collector of traces for tests: the server side of OTLP/gRPC.

use std::sync::Arc;

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Server, ServerTlsConfig},
};

/// A span that has arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) service: String,
    pub(crate) span: Span,
}

/// A collector that accepts every span until its runtime ends.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    pub(crate) url: String,
    arrived: Arc<Mutex<Vec<Arrived>>>,
}

// === impl Collector ===

impl Collector {
    /// Starts a plaintext collector. Must be called in a tokio runtime.
    pub(crate) async fn start() -> Self {
        Self::on(Server::builder(), "http://127.0.0.1").await
    }

    /// Starts a collector with TLS, as `localhost`.
    pub(crate) async fn with_tls(tls: ServerTlsConfig) -> Self {
        Self::on(Server::builder().tls_config(tls).unwrap(), "https://localhost").await
    }

    async fn on(mut server: Server, address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let this = Self { url: format!("{address}:{port}"), arrived: Arc::default() };
        let service = TraceServiceServer::new(this.clone());
        tokio::spawn(server.add_service(service).serve_with_incoming(TcpListenerStream::new(listener)));
        this
    }

    /// Returns the spans that have arrived so far.
    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().clone()
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for group in request.into_inner().resource_spans {
            let resource = group.resource.unwrap_or_default();
            let service = text(&resource.attributes, "service.name").unwrap_or_default();
            let spans = group.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.arrived.lock().extend(spans.map(|span| Arrived { service: service.clone(), span }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

// === impl Arrived ===

impl Arrived {
    /// Returns an attribute as text.
    pub(crate) fn attribute(&self, key: &str) -> Option<String> {
        text(&self.span.attributes, key)
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}
