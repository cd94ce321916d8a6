//! A tokenizer behind vLLM's render API (`vllm launch render`, a model server, or the simulator).
//!
//! A tokenizer that does not answer must not slow every request down by its whole patience: after some failures in a row it is
//! left alone for a while, and requests go on without tokens.

use std::{fmt, sync::Arc, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use longboat_accept::Budget;
use longboat_scheduler::{Prompt, TokenizerSettings};
use parking_lot::Mutex;
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use tokio::{sync::Semaphore, time::Instant};

use super::{Lookup, Question, TokenError, TokenSource, Tokens, names::Names};
use crate::{body::Api, error::Error, exchange::rewrite};

/// Questions at once. A request beyond these goes on without tokens.
const AT_ONCE: usize = 256;
/// Failures in a row after which the tokenizer is left alone.
const FAILURES: u32 = 3;
/// For how long.
const PAUSE: Duration = Duration::from_secs(2);
/// An answer has at most so many bytes for each byte of the request, and so many beside them.
const ANSWER_FACTOR: usize = 16;
const ANSWER_SPARE: usize = 1 << 16;
/// No answer is longer, not even one that repeats images.
const MAX_ANSWER: usize = 64 << 20;

/// Asks a tokenizer over HTTP.
pub(crate) struct Renderer {
    settings: TokenizerSettings,
    client: Client<HttpsConnector<HttpConnector<Names>>, Full<Bytes>>,
    places: Arc<Semaphore>,
    health: Arc<Mutex<Health>>,
}

/// How the tokenizer did lately.
#[derive(Debug, Default)]
struct Health {
    failures: u32,
    /// It is left alone until then.
    rests_until: Option<Instant>,
}

impl fmt::Debug for Renderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renderer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Renderer {
    /// For a tokenizer at this address, asked from a pod of this namespace. Over TLS it is trusted as the environment says.
    pub(crate) fn new(mut settings: TokenizerSettings, namespace: &str) -> Result<Self, Error> {
        let wrong = |message: String| Error::Tokenizer { url: settings.url.clone(), message };
        let uri = settings.url.parse::<http::Uri>().map_err(|error| wrong(error.to_string()))?;
        if uri.scheme().is_none() || uri.host().is_none_or(str::is_empty) {
            return Err(wrong("expected http://HOST:PORT or https://HOST:PORT".to_owned()));
        }
        settings.url.truncate(settings.url.trim_end_matches('/').len());
        let mut http = HttpConnector::new_with_resolver(Names { namespace: namespace.into() });
        http.enforce_http(false);
        http.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config((*longboat_tls::environment_client_config()).clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        Ok(Self {
            settings,
            client: Client::builder(TokioExecutor::new()).build(connector),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            health: Arc::default(),
        })
    }

    /// Whether it may be asked now. While it rests, one request at a time finds out whether it is well again.
    fn may_ask(&self) -> bool {
        let mut health = self.health.lock();
        let now = Instant::now();
        match health.rests_until {
            Some(until) if until > now => false,
            Some(_) => {
                health.rests_until = Some(now + PAUSE);
                true
            }
            None => true,
        }
    }
}

impl TokenSource for Renderer {
    fn ask(&self, question: &Question<'_>) -> Option<Lookup> {
        if question.parsed.exact {
            return None;
        }
        let path = match question.api {
            Api::ChatCompletions => "/v1/chat/completions/render",
            Api::Completions => "/v1/completions/render",
            _ => return None,
        };
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let length = question.body.len();
        // The body is copied to name another model in it.
        let copy = question.bodies.hold(length)?;
        if !self.may_ask() {
            return None;
        }
        let model = self.settings.model.as_deref().unwrap_or(question.target);
        let body = rewrite::request(question.body, &question.parsed.model_at, model);
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{path}", self.settings.url))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .ok()?;
        let (patience, limit) = if question.parsed.multimodal {
            (self.settings.multimodal_timeout, MAX_ANSWER)
        } else {
            (self.settings.timeout, length.saturating_mul(ANSWER_FACTOR).saturating_add(ANSWER_SPARE))
        };
        let trial = Trial { health: Arc::clone(&self.health), until: Instant::now() + patience, over: false };
        let asked = self.client.request(request);
        let bodies = Arc::clone(question.bodies);
        let answer = Box::pin(async move {
            let _held = (place, copy);
            let answer = read(asked, limit.min(MAX_ANSWER), &bodies).await;
            trial.end(answer.as_ref().err());
            answer
        });
        Some(Lookup { patience, answer })
    }
}

/// One question, which counts against the tokenizer where it is not answered in time.
struct Trial {
    health: Arc<Mutex<Health>>,
    until: Instant,
    over: bool,
}

impl Trial {
    fn end(mut self, error: Option<&TokenError>) {
        self.over = true;
        match error {
            Some(TokenError::Unreachable(_) | TokenError::Status(500..)) => self.failed(),
            // An answer is one, whatever it says about the request.
            _ => *self.health.lock() = Health::default(),
        }
    }

    fn failed(&self) {
        let mut health = self.health.lock();
        health.failures = health.failures.saturating_add(1);
        if health.failures >= FAILURES {
            if health.failures == FAILURES {
                tracing::warn!("The tokenizer does not answer. Requests are scheduled without their tokens.");
            }
            health.rests_until = Some(Instant::now() + PAUSE);
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // A client that left early says nothing about the tokenizer.
        if !self.over && Instant::now() >= self.until {
            self.failed();
        }
    }
}

async fn read(
    asked: hyper_util::client::legacy::ResponseFuture,
    limit: usize,
    bodies: &Arc<Budget>,
) -> Result<Tokens, TokenError> {
    let response = asked.await.map_err(|error| TokenError::Unreachable(chain(&error)))?;
    if !response.status().is_success() {
        return Err(TokenError::Status(response.status().as_u16()));
    }
    let mut body = response.into_body();
    let (mut answer, mut held) = (BytesMut::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| TokenError::Unreachable(chain(&error)))?;
        let Ok(data) = frame.into_data() else { continue };
        if answer.len() + data.len() > limit {
            return Err(TokenError::TooLong(limit));
        }
        held.push(bodies.hold(data.len()).ok_or(TokenError::Full(bodies.limit()))?);
        answer.extend_from_slice(data.chunk());
    }
    let prompts = parse(&answer).map_err(|error| TokenError::Malformed(error.to_string()))?;
    let length = prompts.iter().map(|prompt| prompt.0.len()).sum();
    let held = bodies.hold(length).ok_or(TokenError::Full(bodies.limit()))?;
    Ok(Tokens { prompts, held })
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// A chat is one prompt; completions are a list of them.
pub(crate) fn parse(answer: &[u8]) -> serde_json::Result<Vec<Prompt>> {
    let prompts: Vec<Rendered> = if answer.trim_ascii_start().first() == Some(&b'[') {
        serde_json::from_slice(answer)?
    } else {
        vec![serde_json::from_slice(answer)?]
    };
    Ok(prompts.into_iter().map(|rendered| Prompt(rendered.token_ids.0)).collect())
}

#[derive(Deserialize)]
struct Rendered {
    token_ids: TokenBytes,
}

/// Tokens as little-endian bytes.
struct TokenBytes(Vec<u8>);

impl<'de> Deserialize<'de> for TokenBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;
        impl<'de> Visitor<'de> for Tokens {
            type Value = TokenBytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of tokens")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut bytes = Vec::new();
                while let Some(token) = seq.next_element::<u32>()? {
                    bytes.extend_from_slice(&token.to_le_bytes());
                }
                Ok(TokenBytes(bytes))
            }
        }
        deserializer.deserialize_seq(Tokens)
    }
}

#[cfg(test)]
mod tests;
