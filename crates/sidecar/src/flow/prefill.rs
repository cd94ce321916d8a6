//! Sends a request to the prefiller, reads its whole response, and retries as often as configured.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use hyper::body::Incoming;
use longboat_tls::chain;
use tracing::Instrument as _;

use super::head::Head;
use crate::{
    answer,
    body::{MAX_RESPONSE_BYTES, ProxyBody, full, read},
    connectors::Part,
    spans,
    target::Target,
    upstream::{SendError, Upstream},
};

/// Statuses after which another attempt may succeed.
const TRANSIENT: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

/// Statuses that are caused by the request and not by the prefiller. A fallback to the decoder would not help.
const REQUEST_ERRORS: std::ops::RangeInclusive<u16> = 400..=451;

/// Sends requests to prefillers.
#[derive(Clone)]
pub(super) struct Prefiller {
    pub(super) upstream: Upstream,
    /// The number of retries.
    pub(super) retries: u32,
    /// The time between two attempts.
    pub(super) backoff: Duration,
    /// The time limit for all attempts together. `None` if only the client's patience limits them.
    pub(super) patience: Option<Duration>,
}

/// A prefill that failed.
pub(super) struct Failure {
    /// The client's response if no other engine computes the prompt.
    pub(super) answer: Response<ProxyBody>,
    /// Whether the request itself is wrong, so that any engine would refuse it.
    pub(super) is_request_error: bool,
}

// === impl Prefiller ===

impl Prefiller {
    /// Returns the body of the prefiller's response.
    pub(super) async fn ask(&self, head: &Head, part: &Part, target: &Target) -> Result<Bytes, Box<Failure>> {
        let asking = self.attempts(head, part, target).instrument(spans::prefill(target));
        let Some(patience) = self.patience else { return asking.await };
        tokio::time::timeout(patience, asking).await.unwrap_or_else(|_| Err(late(target, patience)))
    }

    async fn attempts(&self, head: &Head, part: &Part, target: &Target) -> Result<Bytes, Box<Failure>> {
        let mut attempt = 0;
        loop {
            // A request can be sent once, so each attempt has its own. They share the bytes of the body.
            let request = head.request_to_read(part.clone());
            let sent = self.upstream.send(target.authority(), request).await;
            // Nothing of a prefill reaches the client, so it may be sent again after any failure.
            let is_transient = sent.as_ref().map_or(true, |answer| TRANSIENT.contains(&answer.status()));
            if is_transient && attempt < self.retries {
                attempt += 1;
                tokio::time::sleep(self.backoff).await;
                continue;
            }
            return match sent {
                Ok(answer) => read_prefill(answer, target).await,
                Err(error) => Err(unreachable(target, &error)),
            };
        }
    }
}

async fn read_prefill(answer: Response<Incoming>, target: &Target) -> Result<Bytes, Box<Failure>> {
    let (mut head, body) = answer.into_parts();
    let body = match read(body, MAX_RESPONSE_BYTES).await {
        Ok(body) => body,
        Err(error) => return Err(unusable(target, &format!("is unusable: {}", chain(&error)))),
    };
    if head.status.is_success() {
        return Ok(body);
    }
    tracing::warn!(target = %target.authority(), status = %head.status, "A prefill request failed.");
    longboat_accept::remove_hop_by_hop(&mut head.headers);
    head.headers.remove(header::CONTENT_LENGTH);
    let is_request_error = REQUEST_ERRORS.contains(&head.status.as_u16());
    Err(Box::new(Failure { answer: Response::from_parts(head, full(body)), is_request_error }))
}

/// The failure of a prefiller whose response cannot be used.
pub(super) fn unusable(target: &Target, why: &str) -> Box<Failure> {
    failure(&format!("the answer of prefill endpoint {} {why}", target.authority()))
}

/// A failure that the request did not cause.
pub(super) fn failure(message: &str) -> Box<Failure> {
    Box::new(Failure { answer: answer::error(StatusCode::BAD_GATEWAY, message), is_request_error: false })
}

fn late(target: &Target, patience: Duration) -> Box<Failure> {
    tracing::warn!(target = %target.authority(), "A prefill request took longer than --prefill-timeout.");
    let (endpoint, patience) = (target.authority(), patience.as_secs_f64());
    let message =
        format!("prefill endpoint {endpoint} did not answer within {patience} s (--prefill-timeout)");
    let answer = answer::error(StatusCode::GATEWAY_TIMEOUT, &message);
    Box::new(Failure { answer, is_request_error: false })
}

fn unreachable(target: &Target, error: &SendError) -> Box<Failure> {
    tracing::warn!(target = %target.authority(), error = chain(error), "A prefill endpoint did not answer.");
    failure(&format!("prefill endpoint {} did not answer: {}", target.authority(), chain(error)))
}
