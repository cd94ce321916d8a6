//! Sends a request through two engines. Each order of the engines is one module.

mod buffered;
mod chunked;
mod concurrent;
mod decode_first;
mod encode;
mod prefill;
mod sequential;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header, uri::Authority};
use uuid::Uuid;

use crate::{
    answer,
    api::{self, Api},
    body::{ProxyBody, pieces},
    chunks::Chunks,
    connectors::{Connector, Identity, Part, Plan, SplitRequest, TRANSFER, encoder, p2p},
    error::chain,
    headers,
    metrics::{Metrics, Outcome},
    object::Object,
    rewrite,
    settings::Settings,
    target::Target,
    upstream::{SendError, Upstream},
};

use chunked::ChunkedRequest;
use prefill::{Failure, Prefiller};

/// The parts that every order needs.
pub(crate) struct Flow<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) connector: &'a Connector,
    pub(crate) prefiller: &'a Upstream,
    pub(crate) decoder: &'a Upstream,
    pub(crate) encoder: &'a Upstream,
    pub(crate) metrics: &'a Metrics,
}

/// The endpoints for a request.
pub(crate) struct Route<'a> {
    /// The endpoint that computes the prompt, if it is not the decoder.
    pub(crate) prefiller: Option<&'a Target>,
    /// The endpoints that encode images, videos and audio, if there are any.
    pub(crate) encoders: Vec<Target>,
    /// An endpoint that has cached a part of the prompt.
    pub(crate) source: Option<&'a Target>,
    /// The engine beside the sidecar that decodes.
    pub(crate) engine: &'a Authority,
}

/// The path of a request, and its headers as engines may see them.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
}

// === impl Flow ===

impl Flow<'_> {
    /// Sends a request through the engines, and returns the client's response.
    pub(crate) async fn run(
        &self,
        api: Api,
        mut head: Head,
        body: Bytes,
        route: Route<'_>,
    ) -> Response<ProxyBody> {
        let parsed = match route.prefiller {
            Some(_) => self.connector.read(&body),
            None => Object::of(&body),
        };
        let mut request = match parsed {
            Ok(request) => request,
            Err(error) => return self.not_an_object(&error),
        };
        let id = Uuid::new_v4();
        let encoder = self.settings.encoder.filter(|_| !route.encoders.is_empty());
        let mut body = body.clone();
        if let Some(encoder) = encoder {
            headers::identify(&mut head.headers, id);
            match self.encode(encoder, &request, &route.encoders, id).await {
                Ok(found) => encoder::add_locations(&mut request, &found),
                Err(failed) => {
                    self.metrics.count(Outcome::EncodeFailed);
                    return *failed;
                }
            }
            body = request.to_vec().into();
        }
        let Some(prefiller) = route.prefiller else {
            return self.alone(&head, &body, request, &route).await;
        };
        if encoder.is_none()
            && self.connector.decodes_first(&request)
            && let Some(answer) = self.decode_first(&head, &body, &route).await
        {
            self.metrics.count(Outcome::DecodedFirst);
            return answer;
        }
        match self.connector.identity() {
            Identity::Kept => headers::identify(&mut head.headers, id),
            Identity::Own => headers::name(&mut head.headers, id),
            Identity::Untouched => {}
        }
        let ask = SplitRequest { api, request: &request, prefiller, id, source: route.source };
        match self.connector.plan(ask).await {
            Ok(Plan::InTurn { prefill, decode }) => {
                self.in_turn(&head, &body, prefill, decode, &route, prefiller).await
            }
            Ok(Plan::AtOnce { prefill, decode, failed }) => {
                self.at_once(&head, &body, (prefill, decode), failed, &route, prefiller).await
            }
            Ok(Plan::Held { prefill, decode, patience }) => {
                self.held(&head, &body, (prefill, decode), patience, &route, prefiller).await
            }
            Err(why) => {
                tracing::warn!(
                    target = %prefiller.authority(),
                    why,
                    "Cannot divide a request between prefill and decode."
                );
                let failure = prefill::failure(&why);
                self.failed(&head, &body, failure, &route).await
            }
        }
    }

    /// Sends a request without a prefill. The only addition is the source of cached blocks. Without it the engine gets the
    /// client's bytes, because writing a body anew could change it (white space, repeated names).
    async fn alone(
        &self,
        head: &Head,
        body: &Bytes,
        mut request: Object<'_>,
        route: &Route<'_>,
    ) -> Response<ProxyBody> {
        self.metrics.count(Outcome::Passed);
        let (Some(ports), Some(source)) = (self.settings.pull, route.source) else {
            return self.decode_alone(head, body, route.engine).await;
        };
        let peer = ports.peer(source, Uuid::new_v4());
        request.set_value(TRANSFER, &serde_json::json!({ p2p::SOURCE: peer }));
        self.decode(head, Part::from(&request), route.engine, None).await
    }

    /// Handles a prefill that failed before the decoder's request was sent. The decoder does both if this is allowed;
    /// otherwise the client receives the error.
    async fn failed(
        &self,
        head: &Head,
        original: &Bytes,
        failure: Box<Failure>,
        route: &Route<'_>,
    ) -> Response<ProxyBody> {
        if self.settings.fall_back && !failure.is_request_error {
            self.metrics.count(Outcome::FellBack);
            return self.decode_alone(head, original, route.engine).await;
        }
        self.metrics.count(Outcome::PrefillFailed);
        let mut answer = failure.answer;
        if self.connector.strips_error_headers() {
            answer::bare(&mut answer);
        }
        answer
    }

    fn prefiller(&self) -> Prefiller {
        Prefiller {
            upstream: self.prefiller.clone(),
            retries: self.settings.retries,
            backoff: self.settings.backoff,
            patience: self.settings.patience,
        }
    }

    /// Sends a part to the engine beside the sidecar, and returns its response for the client.
    async fn decode(
        &self,
        head: &Head,
        part: Part,
        engine: &Authority,
        cached_tokens: Option<u64>,
    ) -> Response<ProxyBody> {
        if let Some(chunks) = self.chunks(head, &part, cached_tokens) {
            let (upstream, head, engine) = (self.decoder.clone(), head.clone(), engine.clone());
            return ChunkedRequest { upstream, head, engine, rank: part.rank, chunks }.run().await;
        }
        match self.decoder.send(engine, head.request(part)).await {
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

    /// Divides a request into chunks, if chunks are configured and possible.
    fn chunks(&self, head: &Head, part: &Part, cached_tokens: Option<u64>) -> Option<Chunks> {
        let size = self.settings.chunk?;
        (head.uri.path() == api::CHAT).then(|| Chunks::of(&part.body.whole(), size, cached_tokens))?
    }

    /// Sends the whole request to the engine beside the sidecar, without a prefill.
    async fn decode_alone(&self, head: &Head, body: &Bytes, engine: &Authority) -> Response<ProxyBody> {
        self.decode(head, Part { body: body.clone().into(), rank: None }, engine, None).await
    }

    fn not_an_object(&self, error: &serde_json::Error) -> Response<ProxyBody> {
        self.metrics.count(Outcome::Refused);
        let message = format!("the request's body is not a JSON object: {error}");
        answer::error(StatusCode::BAD_REQUEST, &message)
    }
}

// === impl Head ===

impl Head {
    /// Builds a request for an engine.
    fn request(&self, part: Part) -> Request<ProxyBody> {
        let mut request = Request::new(pieces(part.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        // The body differs from the client's.
        headers.remove(header::CONTENT_LENGTH);
        if let Some(rank) = part.rank {
            headers.insert(headers::ENGINE_RANK, HeaderValue::from(rank));
        }
        request
    }

    /// Like [`Self::request`], for a response that the sidecar reads: the engine must not compress it.
    fn request_to_read(&self, part: Part) -> Request<ProxyBody> {
        let mut request = self.request(part);
        if let Some(accepted) = request.headers_mut().get_mut(header::ACCEPT_ENCODING) {
            *accepted = HeaderValue::from_static("identity");
        }
        request
    }
}

/// The client's response if the engine gives none.
pub(crate) fn unreachable_decoder(error: &SendError) -> Response<ProxyBody> {
    tracing::warn!(error = chain(error), "The engine of this pod did not answer.");
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
