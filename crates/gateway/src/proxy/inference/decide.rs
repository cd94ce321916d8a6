//! Sends a request to a picker, until the picker has decided where the request goes.

use std::{net::SocketAddr, pin::pin};

use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};
use longboat_extproc::{
    Action, ClientError, Event, HeaderChanges, ImmediateResponse, Receiver, Reply, Sender, names,
};

use super::wire::{listed, request_headers};
use crate::proxy::{
    answer::refuse,
    body::ProxyBody,
    upload::{Part, Upload, UploadError},
};

/// The gRPC status of a picker that cannot decide yet, or no longer can.
const UNAVAILABLE: i32 = 14;

/// The picker's decision about a request.
pub(super) enum Decision {
    /// Forward the request.
    Forward(Box<Forward>),
    /// Answer without a back end.
    Answer(ImmediateResponse),
}

/// A request that is forwarded to an endpoint.
#[derive(Default)]
pub(super) struct Forward {
    pub(super) changes: HeaderChanges,
    pub(super) body: Vec<Bytes>,
    /// The endpoints that the picker chose, best first.
    pub(super) endpoints: Vec<SocketAddr>,
    /// The stream on which the picker sees the response.
    pub(super) exchange: Option<(Sender, Receiver)>,
}

/// Why no picker has decided.
#[derive(Debug, thiserror::Error)]
pub(super) enum PickError {
    /// There is no ready picker.
    #[error("the pool has no ready endpoint picker")]
    None,
    /// A picker cannot be reached.
    #[error("cannot reach the endpoint picker")]
    Unreachable(#[source] ClientError),
    /// A picker failed during the exchange.
    #[error("the endpoint picker failed: {0}")]
    Failed(#[source] ClientError),
    /// A picker ended its stream without a decision.
    #[error("the endpoint picker did not answer")]
    Silent,
    /// The client's body cannot be used.
    #[error(transparent)]
    Upload(#[from] UploadError),
}

/// The picker's replies so far.
#[derive(Default)]
struct PickerReplies {
    /// Whether the request has no body.
    bodiless: bool,
    changes: Option<HeaderChanges>,
    endpoints: Vec<SocketAddr>,
    body: Vec<Bytes>,
    /// The parts of the body that the picker has not sent back, because it changes nothing.
    unchanged: usize,
    complete: bool,
    refusal: Option<ImmediateResponse>,
}

/// Sends the request to the picker and reads its replies at the same time, until the whole body has come back. The part of
/// the client's body that was read stays in `upload`.
pub(super) async fn decide(
    sender: Sender,
    mut receiver: Receiver,
    head: &Parts,
    upload: &mut Upload,
) -> Result<Decision, PickError> {
    let mut answer = PickerReplies { bodiless: upload.is_absent(), ..PickerReplies::default() };
    let sender = {
        let mut showing = pin!(show(sender, head, upload));
        loop {
            tokio::select! {
                // Replies first: a picker that returns the body stops reading while its replies are unread, and both sides
                // would wait for each other.
                biased;
                reply = receiver.receive(), if !answer.is_complete() => {
                    answer.take(reply.map_err(PickError::Failed)?.ok_or(PickError::Silent)?);
                    if let Some(refusal) = answer.refusal.take() {
                        return Ok(Decision::Answer(refusal));
                    }
                }
                // An error here is the client's. `show` reports none of the picker, whose reply says more.
                sender = &mut showing => break sender?,
            }
        }
    };
    // Only now, because sending has borrowed the upload until here.
    let mut sent = BodyCursor::new(upload.chunks());
    for chunk in &mut answer.body {
        sent.share(chunk);
    }
    // The chunks, and the end.
    let parts = upload.chunks().len() + 1;
    while !answer.is_complete() {
        if answer.unchanged == parts && !answer.complete {
            answer.complete = true;
            answer.body = upload.chunks().to_vec();
            continue;
        }
        // Shared as they come, so that the picker's copies do not add up.
        let known = answer.body.len();
        answer.take(receiver.receive().await.map_err(PickError::Failed)?.ok_or(PickError::Silent)?);
        if let Some(refusal) = answer.refusal.take() {
            return Ok(Decision::Answer(refusal));
        }
        for chunk in &mut answer.body[known..] {
            sent.share(chunk);
        }
    }
    let PickerReplies { changes, endpoints, body, .. } = answer;
    let changes = changes.unwrap_or_default();
    Ok(Decision::Forward(Box::new(Forward { changes, body, endpoints, exchange: Some((sender, receiver)) })))
}

/// Sends the picker the head, then the buffered part of the body, then the rest as it arrives. It is not an error if the
/// picker stops reading: its reply says why.
async fn show(mut sender: Sender, head: &Parts, upload: &mut Upload) -> Result<Sender, PickError> {
    let bodiless = upload.is_absent();
    let event = Event::RequestHeaders { headers: request_headers(head), end_of_stream: bodiless };
    if sender.send(event).await.is_err() || bodiless {
        return Ok(sender);
    }
    for body in upload.chunks() {
        let event = Event::RequestBody { body: body.clone(), end_of_stream: false };
        if sender.send(event).await.is_err() {
            return Ok(sender);
        }
    }
    while let Some(part) = upload.next().await? {
        if let Part::Data(body) = part
            && sender.send(Event::RequestBody { body, end_of_stream: false }).await.is_err()
        {
            return Ok(sender);
        }
    }
    let end = match upload.trailers() {
        Some(trailers) => Event::RequestTrailers(listed(trailers)),
        None => Event::RequestBody { body: Bytes::new(), end_of_stream: true },
    };
    let _ = sender.send(end).await;
    Ok(sender)
}

// === impl PickerReplies ===

impl PickerReplies {
    fn is_complete(&self) -> bool {
        self.complete && self.changes.is_some()
    }

    fn take(&mut self, reply: Reply) {
        let Reply { action, metadata } = reply;
        match action {
            Action::Immediate(immediate) => self.refusal = Some(immediate),
            Action::RequestHeaders(new) => {
                let chosen = new.get(names::DESTINATION).or(metadata.destination()).unwrap_or_default();
                self.endpoints = chosen.split(',').filter_map(|part| part.trim().parse().ok()).collect();
                self.changes = Some(new);
                // Without a body, the picker replies to the head only.
                self.complete |= self.bodiless;
            }
            Action::RequestBody { body, end_of_stream } => {
                if !body.is_empty() {
                    self.body.push(body);
                }
                self.complete |= end_of_stream;
            }
            Action::RequestBodyUnchanged => self.unchanged += 1,
            Action::RequestTrailers(_) => self.complete = true,
            Action::ResponseHeaders(_)
            | Action::ResponseBody { .. }
            | Action::ResponseBodyUnchanged
            | Action::ResponseTrailers(_) => {}
        }
    }
}

/// The client's body from the position up to which the picker has returned it.
struct BodyCursor<'a> {
    chunks: &'a [Bytes],
    /// How many bytes of the first chunk have come back.
    at: usize,
}

// === impl BodyCursor ===

impl<'a> BodyCursor<'a> {
    fn new(chunks: &'a [Bytes]) -> Self {
        Self { chunks, at: 0 }
    }

    /// If a chunk came back unchanged, uses the client's copy of it, so that a long body is in memory only once.
    fn share(&mut self, chunk: &mut Bytes) {
        let Some(first) = self.chunks.first() else { return };
        let end = self.at + chunk.len();
        // A picker of this process returns the client's own copy.
        let is_same = |same: &[u8]| same.as_ptr() == chunk.as_ptr() || same == &chunk[..];
        // A chunk over two of the client's is not shared: it would have to be copied.
        if first.get(self.at..end).is_some_and(is_same) {
            *chunk = first.slice(self.at..end);
        }
        self.at = end;
        while let Some((first, rest)) = self.chunks.split_first()
            && first.len() <= self.at
        {
            self.at -= first.len();
            self.chunks = rest;
        }
    }
}

// === impl PickError ===

impl PickError {
    pub(super) fn answer(&self) -> Response<ProxyBody> {
        let status = match self {
            Self::None
            | Self::Unreachable(_)
            | Self::Failed(ClientError::Status { code: UNAVAILABLE, .. }) => StatusCode::SERVICE_UNAVAILABLE,
            // Envoy answers with this status when its processor fails during a request.
            Self::Failed(_) | Self::Silent => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Upload(_) => StatusCode::BAD_REQUEST,
        };
        refuse(status, &self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_as_it_was_sent_is_the_clients_copy() {
        let sent = [Bytes::from(b"abcdef".to_vec()), Bytes::from(b"gh".to_vec())];
        let mut back: Vec<_> = ["abc", "dXf", "gh"].map(|text| Bytes::from(text.as_bytes().to_vec())).into();
        let mut shared = BodyCursor::new(&sent);
        for chunk in &mut back {
            shared.share(chunk);
        }
        assert_eq!(back.concat(), b"abcdXfgh");
        assert_eq!(back[0].as_ptr(), sent[0].as_ptr());
        assert_eq!(back[2].as_ptr(), sent[1].as_ptr());
    }
}
