//! An engine that answers without computing.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

/// Events of a stream, and the time between two of them.
const EVENTS: u32 = 50;
const GAP: Duration = Duration::from_millis(5);

/// An answer of one token, with the transfer parameters of its KV cache.
const ANSWER: &str = r#"{"id":"cmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"length"}],"usage":{"prompt_tokens":250,"completion_tokens":1,"total_tokens":251,"prompt_tokens_details":{"cached_tokens":16}},"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":"e","remote_block_ids":[1,2,3],"remote_host":"10.0.0.1","remote_port":5600}}"#;

const EVENT: &str = "data: {\"id\":\"cmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"},\"finish_reason\":null}]}\n\n";

const LAST: &str = "data: {\"id\":\"cmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":250,\"completion_tokens\":50,\"total_tokens\":300}}\n\ndata: [DONE]\n\n";

/// Answers every request, with a stream if the client accepts one.
pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Engine {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        tokio::spawn(serve(listener, requests.clone()));
        Self { address, requests }
    }

    /// The number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn serve(listener: TcpListener, requests: Arc<AtomicUsize>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let requests = requests.clone();
        let service = service_fn(move |request| {
            requests.fetch_add(1, Ordering::Relaxed);
            answer(request)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

async fn answer(
    request: Request<Incoming>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, hyper::Error> {
    let (head, mut body) = request.into_parts();
    let mut prefix = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = frame?.into_data().unwrap_or_default();
        prefix.extend_from_slice(&data[..data.len().min(1 << 20)]);
    }
    // A prefill request must not stream, whatever the client accepts.
    let is_prefill = contains(&prefix, b"\"do_remote_decode\":true");
    let is_stream = head.headers.get(header::ACCEPT).is_some_and(|kind| kind == "text/event-stream");
    if !is_stream || is_prefill {
        let mut response = Response::new(Full::new(Bytes::from_static(ANSWER.as_bytes())).boxed_unsync());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        return Ok(response);
    }
    let events = stream::iter(0..=EVENTS).then(|number| async move {
        if number > 0 {
            tokio::time::sleep(GAP).await;
        }
        let text = if number < EVENTS { EVENT } else { LAST };
        Ok(Frame::data(Bytes::from_static(text.as_bytes())))
    });
    let mut response = Response::new(StreamBody::new(events).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

/// Whether the last 1000 bytes contain `part`: the sidecar adds its fields at the end.
fn contains(text: &[u8], part: &[u8]) -> bool {
    text[text.len().saturating_sub(1000)..].windows(part.len()).any(|window| window == part)
}
