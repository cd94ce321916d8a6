//! Why a request failed, before it is known what the request was for.

use std::sync::Arc;

use http::HeaderMap;

use crate::{FetchError, error::Protocol, retry::Cause};

/// A request that failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// The cause, which decides whether another attempt makes sense.
    pub(crate) cause: Cause,
    /// What happened, without secrets.
    pub(crate) why: String,
    /// The status, if there was an answer.
    pub(crate) status: Option<u16>,
    /// The headers of the response.
    pub(crate) headers: Box<HeaderMap>,
    /// The host that the request was sent to.
    pub(crate) host: String,
    /// The beginning of the body.
    pub(crate) body: String,
    /// One of our own errors, which ends the download.
    pub(crate) error: Option<Arc<FetchError>>,
}

// === impl Failure ===

impl Failure {
    /// A failure that another attempt cannot change.
    pub(crate) fn last(why: impl Into<String>) -> Self {
        Self::new(Cause::Final, why)
    }

    /// A broken connection, or a body that ended early.
    pub(crate) fn broken(why: impl Into<String>) -> Self {
        Self::new(Cause::Connection, why)
    }

    pub(crate) fn new(cause: Cause, why: impl Into<String>) -> Self {
        Self {
            cause,
            why: why.into(),
            status: None,
            headers: Box::default(),
            host: String::new(),
            body: String::new(),
            error: None,
        }
    }

    pub(crate) fn of_transport(error: reqwest::Error, host: &str) -> Self {
        let error = error.without_url();
        // The certificate is the same in the next attempt, and so is a port without TLS.
        let is_final = error.is_builder()
            || matches!(
                longboat_tls::tls_error(&error),
                Some(rustls::Error::InvalidCertificate(_) | rustls::Error::InvalidMessage(_))
            );
        let cause = if is_final { Cause::Final } else { Cause::Connection };
        Self { host: host.to_owned(), ..Self::new(cause, longboat_tls::innermost(&error)) }
    }

    /// Returns a header of the response if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Converts the failure to an error, by its structure and not by its text.
    pub(crate) fn into_error(self, protocol: Protocol, resource: &str) -> FetchError {
        if let Some(error) = self.error {
            return Arc::try_unwrap(error).unwrap_or_else(|error| FetchError::Answer {
                protocol,
                resource: resource.to_owned(),
                why: error.to_string(),
            });
        }
        let resource = resource.to_owned();
        match self.status {
            Some(401) => FetchError::Authentication { protocol, resource },
            Some(403) => FetchError::Denied { protocol, resource },
            Some(404 | 410) => FetchError::NotFound { protocol, resource },
            Some(status) => FetchError::Status { protocol, resource, status },
            None if matches!(self.cause, Cause::Connection | Cause::Unanswered) => {
                // The address of a model has no host, and the host is what a person checks first.
                let is_named = self.host.is_empty() || resource.contains(&self.host);
                let why = if is_named { self.why } else { format!("{}: {}", self.host, self.why) };
                FetchError::Unreachable { protocol, resource, why }
            }
            None => FetchError::Answer { protocol, resource, why: self.why },
        }
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self { why: error.to_string(), error: Some(Arc::new(error)), ..Self::last("") }
    }
}
