//! Errors as clients see them.

use bytes::Bytes;
use longboat_extproc::{Action, Header, HeaderChanges, ImmediateResponse, names};
use longboat_scheduler::ScheduleError;

use crate::body::BodyError;

/// An error that ends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// When the client may retry, in seconds.
    retry_after: Option<u32>,
    /// The reason why admission dropped the request, for the response header.
    dropped: Option<&'static str>,
}

/// Why a request was dropped, as the response header says it.
pub(crate) mod drop_reason {
    /// The pool, or the queue, is full.
    pub(crate) const SATURATED: &str = "rejected-saturated";
    /// The pool has no endpoints.
    pub(crate) const NO_ENDPOINTS: &str = "rejected-no-endpoints";
    /// No endpoint can decode.
    pub(crate) const NO_DECODE_ENDPOINTS: &str = "rejected-no-decode-endpoints";
    /// The request waited too long.
    pub(crate) const TTL_EXPIRED: &str = "rejected-ttl-expired";
    /// The picker shuts down.
    pub(crate) const SHUTTING_DOWN: &str = "rejected-shutting-down";
    /// The request was evicted to make room.
    pub(crate) const EVICTED: &str = "evicted";
}

/// The reference's error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    BadRequest,
    PreconditionFailed,
    PayloadTooLarge,
    HeadersTooLarge,
    ResourceExhausted,
    Internal,
    ServiceUnavailable,
}

impl Code {
    /// Its HTTP status, and its name in the body and in the `error_code` label.
    const fn parts(self) -> (u16, &'static str) {
        match self {
            Self::BadRequest => (400, "BadRequest"),
            Self::PreconditionFailed => (412, "PreconditionFailed"),
            Self::PayloadTooLarge => (413, "PayloadTooLarge"),
            Self::HeadersTooLarge => (431, "HeadersTooLarge"),
            Self::ResourceExhausted => (429, "ResourceExhausted"),
            Self::Internal => (500, "Internal"),
            Self::ServiceUnavailable => (503, "ServiceUnavailable"),
        }
    }

    pub(crate) fn status(self) -> u16 {
        self.parts().0
    }

    pub(crate) fn name(self) -> &'static str {
        self.parts().1
    }
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None, dropped: None }
    }

    /// The refusal of a request that admission dropped for this reason.
    pub(crate) fn dropped(code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        Self { dropped: Some(reason), ..Self::new(code, message) }
    }

    /// Returns the reason if admission dropped the request.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        self.dropped
    }

    /// The refusal of a request in flight that was evicted to make room.
    pub(crate) fn evicted() -> Self {
        Self::dropped(Code::ResourceExhausted, drop_reason::EVICTED, "request evicted by flow control")
    }

    /// The refusal when there is no memory for another body. Bodies are held only briefly, so the client may retry soon.
    pub(crate) fn full(limit: usize) -> Self {
        let message = format!("the bodies of all requests in flight exceed the limit of {limit} bytes");
        Self { retry_after: Some(1), ..Self::new(Code::ServiceUnavailable, message) }
    }

    /// The response that the proxy sends to the client. The proxy's access log shows the message only through the body, because
    /// the reference sets no details.
    pub(crate) fn action(&self) -> Action {
        let body = if self.dropped == Some(drop_reason::EVICTED) {
            self.message.clone()
        } else {
            format!("inference error: {} - {}", self.code.name(), self.message)
        };
        let retry = self.retry_after.map(|seconds| Header::new("retry-after", seconds.to_string()));
        let dropped = self.dropped.map(|reason| Header::new(names::DROPPED_REASON, reason));
        let headers =
            HeaderChanges { set: retry.into_iter().chain(dropped).collect(), ..HeaderChanges::default() };
        Action::Immediate(ImmediateResponse {
            status: self.code.status(),
            body: Bytes::from(body),
            headers,
            ..ImmediateResponse::default()
        })
    }
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        Self::new(Code::BadRequest, error.to_string())
    }
}

impl From<ScheduleError> for Refusal {
    fn from(error: ScheduleError) -> Self {
        let code = match error {
            ScheduleError::NotAdmitted | ScheduleError::TooSlow => {
                return Self::dropped(Code::ResourceExhausted, drop_reason::SATURATED, error.to_string());
            }
            // The pool has prefill pods only: there is no load that the client could reduce.
            ScheduleError::NoDecodeWorkers => {
                let reason = drop_reason::NO_DECODE_ENDPOINTS;
                return Self::dropped(Code::ServiceUnavailable, reason, error.to_string());
            }
            ScheduleError::NoCandidates => Code::ServiceUnavailable,
            ScheduleError::Profile(_) | ScheduleError::NoProfile(_) => Code::ResourceExhausted,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_without_decode_pods_is_unavailable_and_not_too_busy() {
        let Action::Immediate(answer) = Refusal::from(ScheduleError::NoDecodeWorkers).action() else {
            panic!("no immediate response")
        };
        assert_eq!(answer.status, 503);
        let reason = answer.headers.set.iter().find(|header| header.name == names::DROPPED_REASON).unwrap();
        assert_eq!(reason.value, "rejected-no-decode-endpoints");
        assert_eq!(
            answer.body,
            "inference error: ServiceUnavailable - failed to find target endpoint: failed to find available decode workers"
        );
    }
}
