//! Answers one HTTP request to the webhook server.

use std::{panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use longboat_accept::{Ambiguity, Budget, MemoryReservation};
use longboat_admission::{Hook, MalformedReview, conversion_review, review};
use longboat_api::names::CONVERSION_WEBHOOK_PATH;
use tokio::sync::Semaphore;
use tracing::{Instrument, Span};

use super::{facts::Source, read_retry::ReadError, settings::Limits};
use crate::{metrics::Metrics, spans};

/// Bodies from this size on are handled on blocking threads: parsing them takes milliseconds, and connections must not wait.
const BLOCKING_THRESHOLD_BYTES: usize = 64 << 10;

/// Answers requests.
pub(super) struct WebhookHandler {
    facts: Source,
    metrics: Metrics,
    limits: Limits,
    /// The memory of the bodies that have arrived.
    bodies: Arc<Budget>,
    /// Permits for blocking threads that handle large bodies.
    threads: Arc<Semaphore>,
}

/// The endpoint of a path.
#[derive(Clone, Copy)]
enum Endpoint {
    Admission(Hook),
    Conversion,
}

/// Why a request is refused before its review.
#[derive(Debug, thiserror::Error)]
enum RequestRejection {
    #[error("no webhook at `{path}`; expected one of {}", paths().join(", "))]
    NotFound { path: String },
    #[error(transparent)]
    Ambiguous(#[from] Ambiguity),
    #[error("expected POST, got {0}")]
    Method(Method),
    #[error("expected Content-Type application/json, got `{0}`")]
    ContentType(String),
    #[error("the body is larger than {limit} bytes, the limit of a review")]
    TooLarge { limit: usize },
    #[error("the bodies of other requests need all memory for bodies: try again later")]
    Busy,
    #[error("the body did not arrive in time")]
    Slow,
    #[error("cannot read the body: {0}")]
    Broken(String),
    #[error(transparent)]
    Malformed(#[from] MalformedReview),
    #[error("cannot read the objects that admission needs, such as the platform's settings: {0}")]
    Facts(#[from] ReadError),
    #[error("cannot answer the review: internal error")]
    Internal,
}

// === impl WebhookHandler ===

impl WebhookHandler {
    pub(super) fn new(facts: Source, metrics: Metrics, limits: Limits) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            facts,
            metrics,
            bodies: Budget::new(limits.bodies),
            limits,
            threads: Arc::new(Semaphore::new(threads)),
        }
    }

    /// Answers any request. Never fails: an error is a response.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let version = request.version();
        let endpoint = endpoint(request.uri().path());
        // Only known paths become metric labels: clients choose the others.
        let measured = endpoint.as_ref().ok().map(|endpoint| self.metrics.webhook(endpoint.path()));
        let span =
            endpoint.as_ref().map_or_else(|_| Span::none(), |endpoint| spans::webhook(&endpoint.path()));
        let answer = self.reply(endpoint, request, version).instrument(span.clone()).await;
        spans::answered(&span, Some(answer.status().as_u16()));
        if let Some(measured) = measured {
            measured.answered(answer.status().as_u16());
        }
        answer
    }

    async fn reply(
        &self,
        endpoint: Result<Endpoint, RequestRejection>,
        request: Request<Incoming>,
        version: Version,
    ) -> Response<Full<Bytes>> {
        let reviewed = match endpoint {
            Ok(endpoint) => self.review(endpoint, request).await,
            Err(refused) => Err(refused),
        };
        match reviewed {
            Ok(reply) => json(reply),
            Err(refused) => {
                tracing::debug!(%refused, "Refused a request to the webhooks.");
                refused.response(version)
            }
        }
    }

    async fn review(
        &self,
        endpoint: Endpoint,
        request: Request<Incoming>,
    ) -> Result<Vec<u8>, RequestRejection> {
        longboat_accept::host(request.version(), request.uri(), request.headers())?;
        if request.method() != Method::POST {
            return Err(RequestRejection::Method(request.method().clone()));
        }
        let content_type = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let content_type = String::from_utf8_lossy(content_type.unwrap_or_default());
        let mime = content_type.split(';').next().unwrap_or_default().trim();
        if !mime.eq_ignore_ascii_case("application/json") {
            return Err(RequestRejection::ContentType(content_type.into_owned()));
        }
        let limit = match endpoint {
            Endpoint::Admission(_) => self.limits.admission_body,
            Endpoint::Conversion => self.limits.conversion_body,
        };
        let arriving = tokio::time::timeout(self.limits.patience, self.body(request.into_body(), limit));
        let (body, _room) = arriving.await.map_err(|_| RequestRejection::Slow)??;
        match endpoint {
            Endpoint::Admission(hook) => {
                let facts = self.facts.facts(hook, &body).await?;
                Ok(self.work(body, move |body| review(hook, body, &facts)).await??)
            }
            Endpoint::Conversion => Ok(self.work(body, conversion_review).await??),
        }
    }

    /// Reads a body. Its bytes take their share of the memory for bodies as they arrive: if a body took what it announces, a few
    /// clients that send nothing more would stop all others. A body that finds no room is refused: bodies that waited for each other
    /// would all fail.
    async fn body(
        &self,
        mut body: Incoming,
        limit: usize,
    ) -> Result<(Bytes, MemoryReservation), RequestRejection> {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(RequestRejection::TooLarge { limit });
        }
        let mut read = Vec::new();
        let mut room = self.bodies.hold(0).ok_or(RequestRejection::Busy)?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| RequestRejection::Broken(error.to_string()))?;
            let Ok(bytes) = frame.into_data() else { continue };
            if read.len() + bytes.len() > limit {
                return Err(RequestRejection::TooLarge { limit });
            }
            room.grow(bytes.len()).ok_or(RequestRejection::Busy)?;
            read.extend_from_slice(&bytes);
        }
        Ok((read.into(), room))
    }

    async fn work<T: Send + 'static>(
        &self,
        body: Bytes,
        answer: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> Result<T, RequestRejection> {
        // A panic in one request must not end the other requests of its connection.
        let answer = move |body: Bytes| {
            std::panic::catch_unwind(AssertUnwindSafe(|| answer(&body)))
                .map_err(|_| RequestRejection::Internal)
        };
        if body.len() < BLOCKING_THRESHOLD_BYTES {
            return answer(body);
        }
        let thread =
            Arc::clone(&self.threads).acquire_owned().await.map_err(|_| RequestRejection::Internal)?;
        let answered = tokio::task::spawn_blocking(move || {
            let _thread = thread;
            answer(body)
        });
        answered.await.map_err(|_| RequestRejection::Internal)?
    }
}

impl Endpoint {
    fn path(self) -> String {
        match self {
            Self::Admission(hook) => hook.path(),
            Self::Conversion => CONVERSION_WEBHOOK_PATH.to_owned(),
        }
    }
}

fn endpoint(path: &str) -> Result<Endpoint, RequestRejection> {
    // A Service reference whose path begins with a slash makes API servers send two.
    let normal = format!("/{}", path.trim_start_matches('/'));
    if normal == CONVERSION_WEBHOOK_PATH {
        return Ok(Endpoint::Conversion);
    }
    Hook::at(&normal)
        .map(Endpoint::Admission)
        .ok_or_else(|| RequestRejection::NotFound { path: path.to_owned() })
}

fn paths() -> Vec<String> {
    Hook::all().map(|hook| hook.path()).chain([CONVERSION_WEBHOOK_PATH.to_owned()]).collect()
}

fn json(body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

// === impl RequestRejection ===

impl RequestRejection {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Ambiguous(_) | Self::Broken(_) | Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::Facts(_) | Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn response(&self, version: Version) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::from(format!("{self}\n")));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if let Self::Method(_) = self {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        if let Self::Ambiguous(_) | Self::TooLarge { .. } | Self::Busy | Self::Slow | Self::Broken(_) = self
            && version < Version::HTTP_2
        {
            // The rest of the body is unread, or its end is uncertain, so the connection cannot be reused.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
