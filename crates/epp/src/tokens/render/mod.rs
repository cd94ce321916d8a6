//! A tokenizer with vLLM's render API (`vllm launch render`, a model server, or the simulator).

use std::{fmt, sync::Arc};

use http::{Method, Request, Version, header};
use http_body_util::Full;
use longboat_accept::Budget;
use longboat_scheduler::{Media, Prompt, TokenizerSettings};
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;

use super::{Lookup, Question, TokenError, TokenSource, Tokens};
use crate::{
    body::{self, Api},
    companion::{self, AnswerError, CompanionClient, Health},
    error::Error,
    exchange::rewrite::{self, Edit},
};

/// The most lookups at once. Further requests go on without tokens.
const MAX_CONCURRENT_LOOKUPS: usize = 256;
/// An answer may have this many bytes per byte of the request, plus a fixed number.
const ANSWER_FACTOR: usize = 16;
const ANSWER_SPARE: usize = 1 << 16;
/// The longest answer, even for a request with images.
const MAX_ANSWER: usize = 64 << 20;

/// Asks a tokenizer over HTTP.
pub(crate) struct Renderer {
    settings: TokenizerSettings,
    client: CompanionClient,
    places: Arc<Semaphore>,
    health: Arc<Health>,
}

impl fmt::Debug for Renderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renderer").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Renderer {
    /// Creates a client for a tokenizer, called from a pod of this namespace. Over TLS, it trusts the certificates that the
    /// environment names.
    pub(crate) fn new(mut settings: TokenizerSettings, namespace: &str) -> Result<Self, Error> {
        let address = companion::address(&settings.url)
            .map_err(|message| Error::Tokenizer { url: settings.url.clone(), message })?;
        settings.url = address;
        Ok(Self {
            settings,
            client: companion::client(namespace),
            places: Arc::new(Semaphore::new(MAX_CONCURRENT_LOOKUPS)),
            health: Health::new(
                "The tokenizer does not answer, so requests are scheduled without their tokens.",
            ),
        })
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
        // The body is copied to replace its model.
        let copy = question.bodies.hold(length)?;
        if !self.health.may_send() {
            return None;
        }
        let model = &self.settings.model;
        let body = rewrite::request(question.body, [Edit::model(question.parsed, model)]);
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{path}", self.settings.url))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .ok()?;
        // A tokenizer of local mode listens on loopback, where it takes only hosts of this machine or what our proxies sent.
        longboat_accept::mark_forwarded(request.headers_mut(), Version::HTTP_11);
        let (patience, limit) = if question.parsed.multimodal {
            (self.settings.multimodal_timeout, MAX_ANSWER)
        } else {
            (self.settings.timeout, length.saturating_mul(ANSWER_FACTOR).saturating_add(ANSWER_SPARE))
        };
        let call = self.health.start_call(patience);
        let response = self.client.request(request);
        let bodies = Arc::clone(question.bodies);
        let answer = Box::pin(async move {
            let _held = (place, copy);
            let answer = read(response, limit.min(MAX_ANSWER), &bodies).await;
            match &answer {
                Err(TokenError::Companion(AnswerError::Unreachable(_) | AnswerError::Status(500..))) => {
                    call.failed();
                }
                // Any answer shows that the tokenizer is healthy, even if the answer is an error about the request.
                _ => call.answered(),
            }
            answer
        });
        Some(Lookup { patience, answer })
    }
}

async fn read(
    response: hyper_util::client::legacy::ResponseFuture,
    limit: usize,
    bodies: &Arc<Budget>,
) -> Result<Tokens, TokenError> {
    let mut held = Vec::new();
    let answer = companion::read(response, limit, |bytes| {
        held.push(bodies.hold(bytes).ok_or(TokenError::Full(bodies.limit()))?);
        Ok::<_, TokenError>(())
    });
    let answer = answer.await?;
    let (prompts, media) = parse(&answer).map_err(|error| TokenError::Malformed(error.to_string()))?;
    let length = prompts.iter().map(|prompt| prompt.bytes.len()).sum();
    let held = bodies.hold(length).ok_or(TokenError::Full(bodies.limit()))?;
    Ok(Tokens { prompts, media, held })
}

/// Reads an answer. The answer to a chat is one prompt with its media, and the answer to a completion a list of prompts.
pub(crate) fn parse(answer: &[u8]) -> serde_json::Result<(Vec<Prompt>, Vec<Media>)> {
    let prompts: Vec<RenderResponse<'_>> = if answer.trim_ascii_start().first() == Some(&b'[') {
        serde_json::from_slice(answer)?
    } else {
        vec![serde_json::from_slice(answer)?]
    };
    let media = match prompts.as_slice() {
        [chat] => body::rendered(chat.features),
        _ => Vec::new(),
    };
    Ok((prompts.into_iter().map(|rendered| Prompt::from(rendered.token_ids.0)).collect(), media))
}

#[derive(Deserialize)]
struct RenderResponse<'a> {
    token_ids: TokenBytes,
    #[serde(borrow)]
    features: Option<&'a RawValue>,
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
