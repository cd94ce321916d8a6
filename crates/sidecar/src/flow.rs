//! Prefill elsewhere, then decode here.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header, request::Parts};
use hyper_util::client::legacy::Error as SendError;

use crate::{
    answer,
    body::{ProxyBody, ReadError, full, read},
    headers,
    legs::{Api, Prefilled, decode_body, prefill_body},
    metrics::{Metrics, Outcome},
    object::Object,
    rewrite,
    settings::Settings,
    target::Target,
    upstream::Upstream,
};

/// A prefill answer is one token and where the cache is; this is far more.
const LONGEST_PREFILL_ANSWER: usize = 16 << 20;

/// Statuses that another attempt may not meet.
const TRANSIENT: [StatusCode; 3] =
    [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];

/// Statuses that speak of the request and not of the prefiller: no fallback helps.
const REQUEST_ERRORS: std::ops::RangeInclusive<u16> = 400..=451;

/// What both legs need.
pub(crate) struct Flow<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) prefiller: &'a Upstream,
    pub(crate) decoder: &'a Upstream,
    pub(crate) metrics: &'a Metrics,
}

/// How a prefill went.
enum Prefill {
    Done(Prefilled),
    /// The client gets this instead of tokens.
    Failed {
        answer: Response<ProxyBody>,
        is_request_error: bool,
    },
}

// === impl Flow ===

impl Flow<'_> {
    /// Runs both legs; `head` is as engines may see it.
    pub(crate) async fn run(
        &self,
        api: Api,
        mut head: Parts,
        body: Bytes,
        target: &Target,
        engine: &http::uri::Authority,
    ) -> Response<ProxyBody> {
        let request = match Object::parse(&body) {
            Ok(request) => request,
            Err(error) => {
                self.metrics.count(Outcome::Refused);
                let message = format!("the request's body is not a JSON object: {error}");
                return answer::error(StatusCode::BAD_REQUEST, &message);
            }
        };
        headers::identify(&mut head.headers);
        let prefilled = match self.prefill(&head, prefill_body(api, &request).into(), target).await {
            Prefill::Done(prefilled) => prefilled,
            Prefill::Failed { is_request_error: false, .. } if self.settings.fall_back => {
                self.metrics.count(Outcome::FellBack);
                return self.decode(&head, body, engine, None).await;
            }
            Prefill::Failed { answer, .. } => {
                self.metrics.count(Outcome::PrefillFailed);
                return answer;
            }
        };
        self.metrics.count(Outcome::Disaggregated);
        let body = decode_body(api, &request, &prefilled).into();
        self.decode(&head, body, engine, Some(prefilled.cached_tokens)).await
    }

    async fn prefill(&self, head: &Parts, body: Bytes, target: &Target) -> Prefill {
        let mut attempt = 0;
        loop {
            let mut request = request(head, body.clone());
            // Its answer is read here, whatever the client accepts.
            if let Some(accepted) = request.headers_mut().get_mut(header::ACCEPT_ENCODING) {
                *accepted = http::HeaderValue::from_static("identity");
            }
            let sent = self.prefiller.send(target.authority(), request).await;
            let is_transient = sent.as_ref().map_or(true, |answer| TRANSIENT.contains(&answer.status()));
            if is_transient && attempt < self.settings.retries {
                attempt += 1;
                tokio::time::sleep(self.settings.backoff).await;
                continue;
            }
            return match sent {
                Ok(answer) => understood(answer, target).await,
                Err(error) => unreachable_prefiller(target, &error),
            };
        }
    }

    async fn decode(
        &self,
        head: &Parts,
        body: Bytes,
        engine: &http::uri::Authority,
        cached_tokens: Option<u64>,
    ) -> Response<ProxyBody> {
        match self.decoder.send(engine, request(head, body)).await {
            Ok(mut answer) => {
                headers::for_client(answer.headers_mut());
                match cached_tokens {
                    Some(cached_tokens) => rewrite::with_cached_tokens(answer, cached_tokens),
                    None => answer.map(crate::body::passed),
                }
            }
            Err(error) => unreachable_decoder(&error),
        }
    }
}

async fn understood(answer: Response<hyper::body::Incoming>, target: &Target) -> Prefill {
    let (mut head, body) = answer.into_parts();
    let failed = |message: String| Prefill::Failed {
        answer: answer::error(StatusCode::BAD_GATEWAY, &message),
        is_request_error: false,
    };
    let body = match read(body, LONGEST_PREFILL_ANSWER).await {
        Ok(body) => body,
        Err(error) => {
            let why = match &error {
                ReadError::TooLong(_) => error.to_string(),
                ReadError::Cut(source) => format!("{error}: {source}"),
            };
            return failed(format!(
                "the answer of prefill endpoint {} is unusable: {why}",
                target.authority()
            ));
        }
    };
    if !head.status.is_success() {
        tracing::warn!(target = %target.authority(), status = %head.status, "A prefill failed.");
        headers::for_client(&mut head.headers);
        head.headers.remove(header::CONTENT_LENGTH);
        let is_request_error = REQUEST_ERRORS.contains(&head.status.as_u16());
        return Prefill::Failed { answer: Response::from_parts(head, full(body)), is_request_error };
    }
    match Prefilled::read(&body) {
        Ok(prefilled) => Prefill::Done(prefilled),
        Err(error) => failed(format!(
            "the answer of prefill endpoint {} is not a JSON object: {error}",
            target.authority()
        )),
    }
}

fn request(head: &Parts, body: Bytes) -> Request<ProxyBody> {
    let mut request = Request::new(full(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::clone(&head.uri);
    *request.headers_mut() = head.headers.clone();
    // The body is another one than the client's.
    request.headers_mut().remove(header::CONTENT_LENGTH);
    request
}

fn unreachable_prefiller(target: &Target, error: &SendError) -> Prefill {
    tracing::warn!(target = %target.authority(), error = chain(error), "A prefill endpoint did not answer.");
    let message = format!("prefill endpoint {} did not answer: {}", target.authority(), chain(error));
    Prefill::Failed { answer: answer::error(StatusCode::BAD_GATEWAY, &message), is_request_error: false }
}

/// The answer for an engine that gave none.
pub(crate) fn unreachable_decoder(error: &SendError) -> Response<ProxyBody> {
    tracing::warn!(error = chain(error), "The engine beside the sidecar did not answer.");
    if is_refused(error) {
        return answer::decoder_not_ready();
    }
    answer::error(StatusCode::BAD_GATEWAY, &format!("the engine did not answer: {}", chain(error)))
}

fn is_refused(error: &SendError) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            return io.kind() == std::io::ErrorKind::ConnectionRefused;
        }
        source = error.source();
    }
    false
}

/// An error and what caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}
