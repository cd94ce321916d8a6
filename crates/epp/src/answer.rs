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
        let (code, reason) = match error {
            ScheduleError::NotAdmitted | ScheduleError::TooSlow | ScheduleError::Filtered(_) => {
                (Code::ResourceExhausted, drop_reason::SATURATED)
            }
            // The pool has prefill pods only: there is no load that the client could reduce.
            ScheduleError::NoDecodeWorkers => (Code::ServiceUnavailable, drop_reason::NO_DECODE_ENDPOINTS),
            ScheduleError::NoCandidates => (Code::ServiceUnavailable, drop_reason::NO_ENDPOINTS),
            ScheduleError::NoProfile(_) => return Self::new(Code::ResourceExhausted, error.to_string()),
        };
        Self::dropped(code, reason, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_without_endpoints_is_unavailable_and_a_full_one_is_too_busy() {
        for (error, status, reason, body) in [
            (
                ScheduleError::NoDecodeWorkers,
                503,
                "rejected-no-decode-endpoints",
                "inference error: ServiceUnavailable - failed to find target endpoint: failed to find available decode workers",
            ),
            (
                ScheduleError::NoCandidates,
                503,
                "rejected-no-endpoints",
                "inference error: ServiceUnavailable - failed to find endpoint candidates for serving the request",
            ),
            (
                ScheduleError::filtered_by("default"),
                429,
                "rejected-saturated",
                "inference error: ResourceExhausted - failed to find target endpoint: failed to run scheduler profile 'default'",
            ),
        ] {
            let Action::Immediate(answer) = Refusal::from(error).action() else {
                panic!("no immediate response")
            };
            assert_eq!(answer.status, status);
            assert_eq!(answer.headers.get(names::DROPPED_REASON), Some(reason));
            assert_eq!(answer.body, body);
        }
    }
}
