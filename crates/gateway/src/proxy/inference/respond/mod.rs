//! Sends a response through the picker to the client. Without a picker, the client gets the response unchanged.

mod pending_chunks;

use std::{collections::VecDeque, net::SocketAddr};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderMap, Response, header};
use http_body::Frame;
use http_body_util::BodyExt;
use longboat_extproc::{
    Action, ClientError, Event, ImmediateResponse, Incoming as Message, Metadata, Receiver, Reply, Sender,
    names,
};

use self::pending_chunks::PendingChunks;
use super::wire::{answered, change, listed, response_headers};
use crate::proxy::body::{BodyError, ProxyBody};

/// The error of a response that the picker ends early.
const EVICTION_ERROR: &str = "the endpoint picker ended the response, to free capacity for another request";

/// Waits for the response of an endpoint while also reading the picker's replies: the picker may end a request that is not
/// answered yet. Then the pending request to the endpoint is dropped, which also ends the work there.
pub(super) async fn response_or_end<R>(
    response: impl Future<Output = R>,
    receiver: &mut Receiver,
) -> Result<R, ImmediateResponse> {
    let mut response = std::pin::pin!(response);
    loop {
        tokio::select! {
            // A response that has arrived wins over a picker that ends the request at the same moment.
            biased;
            response = &mut response => return Ok(response),
            reply = receiver.receive() => match reply {
                Ok(Some(Reply { action: Action::Immediate(immediate), .. })) => return Err(immediate),
                Ok(Some(_)) => {}
                // The picker has no more replies.
                Ok(None) | Err(_) => return Ok(response.await),
            }
        }
    }
}

/// Sends the response to the picker, and returns to the client what the picker sends back, chunk by chunk. `served` is the endpoint that
/// has answered.
pub(super) async fn respond(
    response: Response<ProxyBody>,
    served: Option<SocketAddr>,
    mut sender: Sender,
    mut receiver: Receiver,
) -> Response<ProxyBody> {
    let (mut head, body) = response.into_parts();
    let metadata = served.map(|served| {
        let mut metadata = Metadata::default();
        metadata.insert(names::LB_NAMESPACE, names::DESTINATION_SERVED, served.to_string().into());
        metadata
    });
    let end_of_stream = http_body::Body::is_end_stream(&body);
    let event = Event::ResponseHeaders { headers: response_headers(&head), end_of_stream };
    if sender.send(Message { event, metadata }).await.is_err() {
        return Response::from_parts(head, body);
    }
    loop {
        // Replies about the request may still arrive. They are too late to count.
        match receiver.receive().await {
            Ok(Some(Reply { action: Action::ResponseHeaders(changes), .. })) => {
                change(&mut head.headers, &changes);
                break;
            }
            Ok(Some(Reply { action: Action::Immediate(immediate), .. })) => return answered(immediate),
            Ok(Some(_)) => {}
            Ok(None) => return Response::from_parts(head, body),
            Err(error) => {
                tracing::debug!(
                    %error,
                    "Lost the connection to the picker; a response continues without it."
                );
                return Response::from_parts(head, body);
            }
        }
    }
    if end_of_stream {
        return Response::from_parts(head, body);
    }
    // The picker may change the length of the body.
    head.headers.remove(header::CONTENT_LENGTH);
    let link = Link { sender, receiver, shown: PendingChunks::default(), next: None, closed: false };
    let relay = Relay { body, link: Some(link), rest: VecDeque::new(), end: None, done: false };
    let chunks = stream::unfold(relay, |mut relay| async move {
        let frame = relay.frame().await?;
        Some((frame, relay))
    });
    Response::from_parts(head, ProxyBody::stream(chunks.boxed()))
}

/// The body of a response that passes through the picker.
struct Relay {
    body: ProxyBody,
    /// The connection to the picker, until it is gone.
    link: Option<Link>,
    /// The part that the picker has received but not returned.
    rest: VecDeque<Bytes>,
    /// How the back end's body ended, once it has.
    end: Option<End>,
    done: bool,
}

struct Link {
    sender: Sender,
    receiver: Receiver,
    shown: PendingChunks,
    /// The next event for the picker.
    next: Option<Message>,
    /// Whether the picker reads no more; its remaining replies say why.
    closed: bool,
}

enum End {
    Complete,
    Trailers(HeaderMap),
    Failed(BodyError),
}

// === impl Relay ===

impl Relay {
    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        while !self.done {
            let Some(link) = &mut self.link else { return self.alone().await };
            let Link { sender, receiver, shown, next, closed } = link;
            // At most one event waits for the picker. Until it is sent, the back end's body is not read, so a slow picker
            // slows the back end down instead of filling memory.
            let waits = next.is_some();
            tokio::select! {
                biased;
                reply = receiver.receive() => match reply {
                    Ok(Some(Reply { action: Action::ResponseBody { body, end_of_stream }, .. })) => {
                        shown.record_reply(&body);
                        self.done = end_of_stream;
                        if !body.is_empty() {
                            return Some(Ok(Frame::data(body)));
                        }
                    }
                    Ok(Some(Reply { action: Action::ResponseBodyUnchanged, .. })) => match shown.pass() {
                        Some(chunk) => return Some(Ok(Frame::data(chunk))),
                        // The reply to the end, which has no bytes, or to a chunk that is not known any more.
                        None if shown.is_known() => self.done = matches!(self.end, Some(End::Complete)),
                        None => if let Some(error) = self.part(None) {
                            return Some(Err(error));
                        },
                    },
                    Ok(Some(Reply { action: Action::ResponseTrailers(changes), .. })) => {
                        self.done = true;
                        let mut trailers = match self.end.take() {
                            Some(End::Trailers(trailers)) => trailers,
                            _ => HeaderMap::new(),
                        };
                        change(&mut trailers, &changes);
                        return Some(Ok(Frame::trailers(trailers)));
                    }
                    // The client already has the response head, so an incomplete body is the only way to report the error.
                    Ok(Some(Reply { action: Action::Immediate(immediate), .. })) => {
                        tracing::debug!(status = immediate.status, "The picker ended a response that had begun.");
                        self.done = true;
                        return Some(Err(EVICTION_ERROR.into()));
                    }
                    Ok(Some(_)) => {}
                    gone => {
                        if let Some(error) = self.part(gone.err()) {
                            return Some(Err(error));
                        }
                    }
                },
                sent = sender.send_next(next), if waits && !*closed => *closed = sent.is_err(),
                frame = self.body.frame(), if !waits && self.end.is_none() => {
                    if let Some(error) = self.receive(frame) {
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }

    /// Handles the next frame of the back end's body. Returns an error if the response cannot continue.
    fn receive(&mut self, frame: Option<Result<Frame<Bytes>, BodyError>>) -> Option<BodyError> {
        let link = self.link.as_mut()?;
        match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(body) => {
                    // Recorded before it is sent: if the connection breaks, the client gets this chunk without the picker.
                    link.shown.push(body.clone());
                    link.next = Some(Event::ResponseBody { body, end_of_stream: false }.into());
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        link.next = Some(Event::ResponseTrailers(listed(&trailers)).into());
                        self.end = Some(End::Trailers(trailers));
                    }
                }
            },
            None => {
                let end = Event::ResponseBody { body: Bytes::new(), end_of_stream: true };
                link.next = Some(end.into());
                self.end = Some(End::Complete);
            }
            // The back end died. The client gets the part that arrived, then an error.
            Some(Err(error)) => {
                self.end = Some(End::Failed(error));
                return self.part(None);
            }
        }
        None
    }

    /// Continues without the picker. Returns an error if it is unknown which part of the response the client has got.
    fn part(&mut self, error: Option<ClientError>) -> Option<BodyError> {
        let Link { shown, .. } = self.link.take()?;
        let Some(rest) = shown.rest() else {
            self.done = true;
            return Some(
                "the connection to the endpoint picker, which changes the response, was lost in the middle \
                 of it"
                    .into(),
            );
        };
        if let Some(error) = error {
            tracing::debug!(%error, "Lost the connection to the picker; a response continues without it.");
        }
        self.rest = rest;
        None
    }

    async fn alone(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        if let Some(bytes) = self.rest.pop_front() {
            return Some(Ok(Frame::data(bytes)));
        }
        let frame = match self.end.take() {
            None => self.body.frame().await,
            Some(End::Complete) => None,
            Some(End::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Some(End::Failed(error)) => Some(Err(error)),
        };
        self.done = !matches!(&frame, Some(Ok(frame)) if frame.is_data());
        frame
    }
}
