//! Requests to InferencePools: the picker sees everything and says where to go, as behind Envoy (contract 04 §1).

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, request::Parts, response};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use longboat_extproc::{
    Action, Client, ClientError, Event, HeaderChanges, Headers, ImmediateResponse, Incoming as Message,
    Metadata, Receiver, Reply, Sender, names,
};
use parking_lot::Mutex;
use rand::seq::SliceRandom;
use tokio::task::JoinHandle;

use super::{
    answer::{failed, refuse},
    body::ProxyBody,
    upstream::Upstream,
};
use crate::route::Pool;

/// The picker needs the whole body before it can choose, and a retry needs it again.
const BODY_LIMIT: usize = 64 << 20;

/// Connections to pickers, one each.
pub(crate) struct Pickers {
    clients: Mutex<HashMap<SocketAddr, Client>>,
    tls: Arc<rustls::ClientConfig>,
}

/// What the picker decided about a request.
enum Decision {
    /// Send it on.
    Forward(Box<Forward>),
    /// Answer without a back end.
    Answer(ImmediateResponse),
}

/// A request on its way to an endpoint.
#[derive(Default)]
struct Forward {
    changes: HeaderChanges,
    body: Vec<Bytes>,
    /// The picker's choice, best first.
    endpoints: Vec<SocketAddr>,
    /// Where the response is shown to the picker.
    exchange: Option<(Sender, Receiver)>,
}

#[derive(Debug, thiserror::Error)]
enum PickError {
    /// The picker could not be asked; the client's body is untouched.
    #[error("the endpoint picker cannot be reached")]
    Unreachable(#[source] Option<ClientError>),
    /// The picker failed in the middle.
    #[error("the endpoint picker failed: {0}")]
    Failed(#[source] ClientError),
    /// The picker ended its stream without saying where to go.
    #[error("the endpoint picker gave no answer")]
    Silent,
    /// The client's body ended early.
    #[error("the request body ended early")]
    Body(#[source] hyper::Error),
    /// The body is over the limit.
    #[error("the request body is larger than {} MiB", BODY_LIMIT >> 20)]
    TooLarge,
}

// === impl Pickers ===

impl Pickers {
    pub(crate) fn new() -> Self {
        Self { clients: Mutex::default(), tls: longboat_tls::insecure_client_config(&[b"h2"]) }
    }

    /// Carries one request to an endpoint of the pool, and its response back, both through the picker.
    pub(crate) async fn exchange(
        &self,
        upstream: &Upstream,
        pool: &Pool,
        mut head: Parts,
        mut body: Incoming,
        timeout: Option<Duration>,
    ) -> Response<ProxyBody> {
        let forward = match self.ask(pool, &head, &mut body).await {
            Ok(Decision::Answer(immediate)) => return answered(immediate),
            Ok(Decision::Forward(forward)) => *forward,
            Err(PickError::Unreachable(error)) if pool.fail_open => {
                tracing::debug!(?error, pool = %pool.name, "Going on without the picker, as the pool's failureMode says.");
                match collect(&mut body).await {
                    Ok(body) => Forward { body, ..Forward::default() },
                    Err(error) => return error.answer(),
                }
            }
            Err(error) => {
                tracing::debug!(%error, pool = %pool.name, "The picker did not answer a request.");
                return error.answer();
            }
        };
        let Forward { changes, body, mut endpoints, exchange } = forward;
        // Where the picker's choice cannot be reached, any other ready endpoint is better than an error.
        let mut others: Vec<_> =
            pool.endpoints.iter().filter(|other| !endpoints.contains(other)).copied().collect();
        others.shuffle(&mut rand::rng());
        endpoints.extend(others);
        change(&mut head.headers, &changes);
        // The length is that of the picker's body, which hyper knows.
        head.headers.remove(header::CONTENT_LENGTH);
        match upstream.send_replayable(&head, &body, &endpoints, timeout).await {
            Err(error) => failed(&error),
            Ok((served, response)) => match exchange {
                None => response,
                Some((sender, receiver)) => respond(response, served, sender, receiver).await,
            },
        }
    }

    fn client(&self, address: SocketAddr) -> Client {
        let mut clients = self.clients.lock();
        clients.entry(address).or_insert_with(|| Client::new(address, Some(self.tls.clone()))).clone()
    }

    /// Forgets pickers that are no longer behind any pool's Service.
    fn forget(&self, address: SocketAddr) {
        self.clients.lock().remove(&address);
    }

    async fn ask(&self, pool: &Pool, head: &Parts, body: &mut Incoming) -> Result<Decision, PickError> {
        let mut pickers = pool.pickers.clone();
        pickers.shuffle(&mut rand::rng());
        let mut unreachable = None;
        for picker in pickers {
            match self.client(picker).open().await {
                Ok(exchange) => {
                    let (sender, receiver) = exchange.split();
                    return decide(sender, receiver, head, body).await;
                }
                Err(error) => {
                    self.forget(picker);
                    unreachable = Some(error);
                }
            }
        }
        Err(PickError::Unreachable(unreachable))
    }
}

// === impl PickError ===

impl PickError {
    fn answer(&self) -> Response<ProxyBody> {
        let status = match self {
            Self::Unreachable(_) => StatusCode::SERVICE_UNAVAILABLE,
            // Envoy's answer when its processor fails under a request.
            Self::Failed(_) | Self::Silent => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Body(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        };
        refuse(status, &self.to_string())
    }
}

/// Sends the request to the picker while it reads the replies, until the whole body has come back.
async fn decide(
    mut sender: Sender,
    mut receiver: Receiver,
    head: &Parts,
    body: &mut Incoming,
) -> Result<Decision, PickError> {
    let bodiless = http_body::Body::is_end_stream(body);
    let event = Event::RequestHeaders { headers: request_headers(head), end_of_stream: bodiless };
    sender.send(event).await.map_err(PickError::Failed)?;
    let mut upload = std::pin::pin!(async move {
        if !bodiless {
            pump_request(&mut sender, body).await?;
        }
        Ok::<_, PickError>(sender)
    });
    let mut uploaded = None;
    let mut changes = None;
    let mut endpoints = Vec::new();
    let mut chunks = Vec::new();
    loop {
        let reply = tokio::select! {
            biased;
            reply = receiver.receive() => reply.map_err(PickError::Failed)?,
            sender = &mut upload, if uploaded.is_none() => {
                uploaded = Some(sender?);
                continue;
            }
        };
        let Some(Reply { action, metadata }) = reply else { return Err(PickError::Silent) };
        let complete = match action {
            Action::Immediate(immediate) => return Ok(Decision::Answer(immediate)),
            Action::RequestHeaders(new) => {
                let chosen = new.get(names::DESTINATION).or(metadata.destination()).unwrap_or_default();
                endpoints = chosen.split(',').filter_map(|part| part.trim().parse().ok()).collect();
                changes = Some(new);
                bodiless
            }
            Action::RequestBody { body, end_of_stream } => {
                if !body.is_empty() {
                    chunks.push(body);
                }
                end_of_stream
            }
            Action::RequestTrailers(_) => true,
            Action::ResponseHeaders(_) | Action::ResponseBody { .. } | Action::ResponseTrailers(_) => false,
        };
        if complete && let Some(changes) = changes.take() {
            let sender = match uploaded {
                Some(sender) => sender,
                None => upload.await?,
            };
            let exchange = Some((sender, receiver));
            return Ok(Decision::Forward(Box::new(Forward { changes, body: chunks, endpoints, exchange })));
        }
    }
}

async fn pump_request(sender: &mut Sender, body: &mut Incoming) -> Result<(), PickError> {
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        match frame.map_err(PickError::Body)?.into_data() {
            Ok(data) => {
                seen += data.len();
                if seen > BODY_LIMIT {
                    return Err(PickError::TooLarge);
                }
                let event = Event::RequestBody { body: data, end_of_stream: false };
                sender.send(event).await.map_err(PickError::Failed)?;
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    let trailers = Event::RequestTrailers(listed(&trailers));
                    return sender.send(trailers).await.map_err(PickError::Failed);
                }
            }
        }
    }
    let end = Event::RequestBody { body: Bytes::new(), end_of_stream: true };
    sender.send(end).await.map_err(PickError::Failed)
}

async fn collect(body: &mut Incoming) -> Result<Vec<Bytes>, PickError> {
    let mut chunks = Vec::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(PickError::Body)?.into_data() {
            seen += data.len();
            if seen > BODY_LIMIT {
                return Err(PickError::TooLarge);
            }
            chunks.push(data);
        }
    }
    Ok(chunks)
}

/// Shows the response to the picker and gives the client what comes back, chunk by chunk.
async fn respond(
    response: Response<ProxyBody>,
    served: SocketAddr,
    mut sender: Sender,
    mut receiver: Receiver,
) -> Response<ProxyBody> {
    let (mut head, body) = response.into_parts();
    let mut metadata = Metadata::default();
    metadata.insert(names::LB_NAMESPACE, names::DESTINATION_SERVED, served.to_string().into());
    let end_of_stream = http_body::Body::is_end_stream(&body);
    let event = Event::ResponseHeaders { headers: response_headers(&head), end_of_stream };
    if sender.send(Message { event, metadata: Some(metadata) }).await.is_err() {
        // The picker has nothing more to do with this request; the response goes out as it is.
        return Response::from_parts(head, body);
    }
    loop {
        match receiver.receive().await {
            Ok(Some(Reply { action: Action::ResponseHeaders(changes), .. })) => {
                change(&mut head.headers, &changes);
                break;
            }
            Ok(Some(Reply { action: Action::Immediate(immediate), .. })) => return answered(immediate),
            Ok(Some(_)) => {}
            Ok(None) => return Response::from_parts(head, body),
            Err(error) => {
                tracing::debug!(%error, "The picker failed under a response.");
                return PickError::Failed(error).answer();
            }
        }
    }
    if end_of_stream {
        return Response::from_parts(head, body);
    }
    // The picker's chunks need not be those of the back end.
    head.headers.remove(header::CONTENT_LENGTH);
    let upload = AbortOnDrop(tokio::spawn(pump_response(sender, body)));
    let chunks = stream::unfold((receiver, upload, false), |(mut receiver, upload, ended)| async move {
        if ended {
            return None;
        }
        loop {
            match receiver.receive().await {
                Ok(Some(Reply { action: Action::ResponseBody { body, end_of_stream }, .. })) => {
                    if body.is_empty() && !end_of_stream {
                        continue;
                    }
                    return Some((Ok(Frame::data(body)), (receiver, upload, end_of_stream)));
                }
                Ok(Some(Reply { action: Action::ResponseTrailers(changes), .. })) => {
                    let mut trailers = HeaderMap::new();
                    change(&mut trailers, &changes);
                    return Some((Ok(Frame::trailers(trailers)), (receiver, upload, true)));
                }
                Ok(Some(_)) => {}
                // The picker went away in the middle: as behind Envoy, the client's stream is cut.
                Ok(None) => {
                    return Some((
                        Err("the endpoint picker ended the stream early".into()),
                        (receiver, upload, true),
                    ));
                }
                Err(error) => return Some((Err(error.into()), (receiver, upload, true))),
            }
        }
    });
    Response::from_parts(head, ProxyBody::stream(chunks.boxed()))
}

async fn pump_response(mut sender: Sender, mut body: ProxyBody) {
    while let Some(frame) = body.frame().await {
        let event = match frame.map(Frame::into_data) {
            Ok(Ok(data)) => Event::ResponseBody { body: data, end_of_stream: false },
            Ok(Err(frame)) => match frame.into_trailers() {
                Ok(trailers) => {
                    let _ = sender.send(Event::ResponseTrailers(listed(&trailers))).await;
                    return hold(sender).await;
                }
                Err(_) => continue,
            },
            // The back end died. Ending the stream without an end of body cuts the client's answer short too.
            Err(_) => return,
        };
        if sender.send(event).await.is_err() {
            return;
        }
    }
    let _ = sender.send(Event::ResponseBody { body: Bytes::new(), end_of_stream: true }).await;
    hold(sender).await;
}

/// Keeps the sending half open until the answer has been read: closing it early would look like a client that left.
async fn hold(sender: Sender) {
    let _sender = sender;
    std::future::pending::<()>().await;
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn request_headers(head: &Parts) -> Headers {
    let mut headers = Headers::new();
    headers.push(":method", head.method.as_str().to_owned());
    headers.push(":path", head.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned());
    headers.push(":scheme", "http");
    if let Some(host) = head.headers.get(header::HOST) {
        headers.push(":authority", Bytes::copy_from_slice(host.as_bytes()));
    }
    let Headers(fields) = listed(&head.headers);
    headers.0.extend(fields.into_iter().filter(|field| field.name.as_ref() != b"host"));
    headers
}

fn response_headers(head: &response::Parts) -> Headers {
    let mut headers = Headers::new();
    headers.push(":status", head.status.as_str().to_owned());
    let Headers(fields) = listed(&head.headers);
    headers.0.extend(fields);
    headers
}

fn listed(headers: &HeaderMap) -> Headers {
    let mut list = Headers::new();
    for (name, value) in headers {
        list.push(Bytes::copy_from_slice(name.as_str().as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    }
    list
}

/// Applies a picker's changes; as in Envoy, pseudo-headers and the host stay.
fn change(headers: &mut HeaderMap, changes: &HeaderChanges) {
    for field in &changes.set {
        if field.name.starts_with(b":") || field.name.eq_ignore_ascii_case(b"host") {
            continue;
        }
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&field.name), HeaderValue::from_bytes(&field.value))
        {
            headers.insert(name, value);
        }
    }
    for name in &changes.remove {
        headers.remove(name);
    }
}

fn answered(immediate: ImmediateResponse) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::full(immediate.body));
    *response.status_mut() =
        StatusCode::from_u16(immediate.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    change(response.headers_mut(), &immediate.headers);
    response
}
