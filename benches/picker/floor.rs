//! The floor: the smallest useful ext_proc server, a bare tonic server that picks endpoints in turn.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use envoy_types::pb::envoy::{
    config::core::v3::{HeaderMap, HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction},
    service::ext_proc::v3::{
        BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, HttpBody,
        ProcessingRequest, ProcessingResponse, StreamedBodyResponse, TrailersResponse,
        body_mutation::Mutation,
        external_processor_server::{ExternalProcessor, ExternalProcessorServer},
        processing_request::Request,
        processing_response::Response,
    },
};
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    service::TowerToHyperService,
};
use longboat_extproc::names;
use tokio::net::TcpListener;
use tonic::{Status, Streaming};

/// Serves on a free port, which is printed, with one thread per core.
pub(crate) fn run(endpoints: Vec<String>) {
    longboat_tls::install_default_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pair = longboat_tls::self_signed(&longboat_tls::LeafRequest {
            common_name: "floor".to_owned(),
            dns_names: vec!["localhost".to_owned()],
            days: 1,
            ..longboat_tls::LeafRequest::default()
        })
        .unwrap();
        let tls = tokio_rustls::TlsAcceptor::from(longboat_tls::server_config(&pair, &[b"h2"]).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        let floor = Floor { endpoints: endpoints.into(), next: Arc::default() };
        let service = ExternalProcessorServer::new(floor);
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (tls, service) = (tls.clone(), TowerToHyperService::new(service.clone()));
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                // Envoy ends connections as it likes.
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

#[derive(Clone)]
struct Floor {
    endpoints: Arc<[String]>,
    next: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl ExternalProcessor for Floor {
    type ProcessStream = BoxStream<'static, Result<ProcessingResponse, Status>>;

    async fn process(
        &self,
        request: tonic::Request<Streaming<ProcessingRequest>>,
    ) -> Result<tonic::Response<Self::ProcessStream>, Status> {
        let next = self.next.fetch_add(1, Relaxed);
        let endpoint = self.endpoints[next % self.endpoints.len()].clone();
        let mut held = Held { endpoint, ..Held::default() };
        let replies = request.into_inner().map_ok(move |message| {
            let replies = message.request.map(|event| held.handle(event)).unwrap_or_default();
            stream::iter(replies).map(|reply| {
                Ok(ProcessingResponse { response: Some(reply), ..ProcessingResponse::default() })
            })
        });
        Ok(tonic::Response::new(replies.try_flatten().boxed()))
    }
}

/// Buffers the body until it is complete, and forwards it unchanged.
#[derive(Default)]
struct Held {
    endpoint: String,
    headers: HeaderMap,
    chunks: Vec<Vec<u8>>,
}

impl Held {
    fn handle(&mut self, event: Request) -> Vec<Response> {
        match event {
            Request::RequestHeaders(headers) => {
                self.headers = headers.headers.unwrap_or_default();
                Vec::new()
            }
            Request::RequestBody(HttpBody { body, end_of_stream, .. }) => {
                self.chunks.push(body);
                if end_of_stream { self.forward() } else { Vec::new() }
            }
            Request::ResponseHeaders(_) => vec![Response::ResponseHeaders(HeadersResponse::default())],
            Request::ResponseBody(HttpBody { body, end_of_stream, .. }) => {
                vec![Response::ResponseBody(sent(body, end_of_stream))]
            }
            Request::RequestTrailers(_) => vec![Response::RequestTrailers(TrailersResponse::default())],
            Request::ResponseTrailers(_) => vec![Response::ResponseTrailers(TrailersResponse::default())],
        }
    }

    fn forward(&mut self) -> Vec<Response> {
        let mut headers = std::mem::take(&mut self.headers).headers;
        headers.retain(|header| !header.key.starts_with(':') && header.key != "content-length");
        headers.push(HeaderValue {
            key: names::DESTINATION.to_owned(),
            raw_value: std::mem::take(&mut self.endpoint).into(),
            ..HeaderValue::default()
        });
        let set = headers.into_iter().map(|header| HeaderValueOption {
            header: Some(header),
            append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
            ..HeaderValueOption::default()
        });
        let common = CommonResponse {
            header_mutation: Some(HeaderMutation { set_headers: set.collect(), ..HeaderMutation::default() }),
            clear_route_cache: true,
            ..CommonResponse::default()
        };
        let mut replies = vec![Response::RequestHeaders(HeadersResponse { response: Some(common) })];
        let last = self.chunks.len() - 1;
        let chunks = self.chunks.drain(..).enumerate();
        replies.extend(chunks.map(|(index, body)| Response::RequestBody(sent(body, index == last))));
        replies
    }
}

fn sent(body: Vec<u8>, end_of_stream: bool) -> BodyResponse {
    let chunk = StreamedBodyResponse { body, end_of_stream, ..StreamedBodyResponse::default() };
    let mutation = BodyMutation { mutation: Some(Mutation::StreamedResponse(chunk)) };
    BodyResponse {
        response: Some(CommonResponse { body_mutation: Some(mutation), ..CommonResponse::default() }),
    }
}
