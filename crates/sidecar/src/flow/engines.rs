//! The engines of a request, and what every order of them needs.

use bytes::Bytes;
use http::{Response, uri::Authority};
use longboat_tls::ReloadingRoots;
use tracing::Instrument as _;

use super::{
    chunked::ChunkedRequest,
    head::Head,
    prefill::{Failure, Prefiller},
};
use crate::{
    answer, api,
    body::{ProxyBody, passed},
    chunks::Chunks,
    connectors::{Connector, Part},
    metrics::{Metrics, Outcome},
    rewrite,
    settings::Settings,
    spans,
    target::Target,
    upstream::Upstream,
};

/// The settings, the clients of the engines, and the metrics.
pub(crate) struct Flow {
    pub(crate) settings: Settings,
    pub(crate) connector: Connector,
    pub(crate) prefiller: Upstream,
    pub(crate) decoder: Upstream,
    pub(crate) encoder: Upstream,
    pub(crate) metrics: Metrics,
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

/// A request with a prefill.
pub(super) struct RequestContext<'a> {
    pub(super) head: &'a Head,
    /// The decoder's request if the prefiller fails and the decoder may do both.
    pub(super) original: &'a Bytes,
    pub(super) route: &'a Route<'a>,
    pub(super) prefiller: &'a Target,
}

// === impl Flow ===

impl Flow {
    /// `trusted` are the roots for connections that verify certificates.
    pub(crate) fn new(settings: Settings, trusted: Option<&ReloadingRoots>) -> Self {
        Self {
            connector: Connector::new(&settings),
            prefiller: Upstream::prefiller(&settings, trusted),
            decoder: Upstream::decoder(&settings, trusted),
            encoder: Upstream::encoder(&settings, trusted),
            metrics: Metrics::create(),
            settings,
        }
    }

    /// Handles a prefill that failed before the decoder's request was sent. The decoder does both if this is allowed;
    /// otherwise the client receives the error.
    pub(super) async fn failed(
        &self,
        request: &RequestContext<'_>,
        failure: Box<Failure>,
    ) -> Response<ProxyBody> {
        if self.settings.fall_back && !failure.is_request_error {
            self.metrics.count(Outcome::FellBack);
            return self.decode_alone(request.head, request.original, request.route.engine).await;
        }
        self.metrics.count(Outcome::PrefillFailed);
        let mut answer = failure.answer;
        if self.connector.strips_error_headers() {
            answer::bare(&mut answer);
        }
        answer
    }

    pub(super) fn prefiller(&self) -> Prefiller {
        Prefiller {
            upstream: self.prefiller.clone(),
            retries: self.settings.retries,
            backoff: self.settings.backoff,
            patience: self.settings.patience,
        }
    }

    /// Sends a part to the engine beside the sidecar, and returns its response for the client.
    pub(super) async fn decode(
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
        let span = spans::decode();
        match self.decoder.send(engine, head.request(part)).instrument(span.clone()).await {
            Ok(mut answer) => {
                longboat_accept::remove_hop_by_hop(answer.headers_mut());
                let answer = match cached_tokens {
                    Some(cached_tokens) => rewrite::with_cached_tokens(answer, cached_tokens),
                    None => answer.map(passed),
                };
                spans::until_end_of(answer, span)
            }
            Err(error) => answer::unreachable_decoder(&error),
        }
    }

    /// Divides a request into chunks, if chunks are configured and possible.
    fn chunks(&self, head: &Head, part: &Part, cached_tokens: Option<u64>) -> Option<Chunks> {
        let size = self.settings.chunk?;
        (head.uri.path() == api::CHAT).then(|| Chunks::of(&part.body.whole(), size, cached_tokens))?
    }

    /// Sends the whole request to the engine beside the sidecar, without a prefill.
    pub(super) async fn decode_alone(
        &self,
        head: &Head,
        body: &Bytes,
        engine: &Authority,
    ) -> Response<ProxyBody> {
        self.decode(head, Part { body: body.clone().into(), rank: None }, engine, None).await
    }
}
