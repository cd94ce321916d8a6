//! What clients send. Unknown fields are accepted, as vLLM accepts them.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::error::ApiError;
use crate::text;

/// Sampling fields that chat and completions share and that change what the simulator answers.
#[derive(Debug, Deserialize)]
pub(crate) struct Sampling {
    pub(crate) model: Option<String>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<usize>,
    #[serde(default)]
    max_tokens: Option<usize>,
    #[serde(default)]
    max_completion_tokens: Option<usize>,
    #[serde(default)]
    min_tokens: Option<usize>,
    #[serde(default)]
    ignore_eos: Option<bool>,
    #[serde(default)]
    pub(crate) seed: Option<i64>,
    #[serde(default)]
    stop: Option<OneOrMany>,
    #[serde(default)]
    kv_transfer_params: Option<Transfer>,
}

/// How the KV cache of a request that two engines share moves between them, as vLLM's connectors say it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Transfer {
    do_remote_decode: bool,
    do_remote_prefill: bool,
    remote_host: Option<String>,
}

/// An engine's part in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// The prompt and one token; another engine fetches the cache and goes on.
    Prefill,
    /// What follows a prompt that another engine has computed.
    Decode,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Answers that one request may ask for; vLLM's own limit is its batch size.
const MAX_CHOICES: usize = 128;

// === impl Sampling ===

impl Sampling {
    pub(crate) fn include_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage)
    }

    pub(crate) fn choices(&self) -> Result<usize, ApiError> {
        match self.n.unwrap_or(1) {
            n @ 1..=MAX_CHOICES => Ok(n),
            n => Err(ApiError::bad_request(format!("n must be between 1 and {MAX_CHOICES}, got {n}."))),
        }
    }

    pub(crate) fn limit(&self) -> Result<Option<usize>, ApiError> {
        match self.max_completion_tokens.or(self.max_tokens) {
            Some(0) => Err(ApiError::bad_request("max_tokens must be at least 1, got 0.".into())),
            limit => Ok(limit),
        }
    }

    /// The least number of tokens to answer, where the client insists on one.
    pub(crate) fn least(&self, limit: usize) -> Option<usize> {
        if self.ignore_eos == Some(true) {
            Some(limit)
        } else {
            self.min_tokens.map(|least| least.min(limit))
        }
    }

    /// Which part of the request is asked for.
    pub(crate) fn part(&self) -> Part {
        match &self.kv_transfer_params {
            Some(transfer) if transfer.do_remote_decode => Part::Prefill,
            Some(transfer) if transfer.do_remote_prefill => Part::Decode,
            _ => Part::Whole,
        }
    }

    /// Where the cache of the prompt is, if it is elsewhere.
    pub(crate) fn cache_host(&self) -> Option<&str> {
        self.kv_transfer_params.as_ref().filter(|_| self.part() == Part::Decode)?.remote_host.as_deref()
    }

    pub(crate) fn stops(&self) -> &[String] {
        match &self.stop {
            None => &[],
            Some(OneOrMany::One(stop)) => std::slice::from_ref(stop),
            Some(OneOrMany::Many(stops)) => stops,
        }
    }
}

/// `POST /v1/chat/completions`.
#[derive(Debug, Deserialize)]
pub(crate) struct Chat {
    #[serde(flatten)]
    pub(crate) sampling: Sampling,
    messages: Vec<Message>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
}

// === impl Chat ===

impl Chat {
    /// The messages as one text, roles included, as a chat template would lay them out.
    pub(crate) fn prompt(&self) -> Result<String, ApiError> {
        if self.messages.is_empty() {
            return Err(ApiError::bad_request("messages must not be empty.".into()));
        }
        layout(&self.messages)
    }

    /// What an echoing model says: the last message.
    pub(crate) fn last(&self) -> Result<String, ApiError> {
        self.messages.last().map_or(Ok(String::new()), |message| content(&message.content))
    }
}

fn layout(messages: &[Message]) -> Result<String, ApiError> {
    let mut prompt = String::new();
    for message in messages {
        let content = content(&message.content)?;
        prompt.extend(["<|", &message.role, "|>\n", &content, "\n"]);
    }
    Ok(prompt + "<|assistant|>\n")
}

fn content(content: &Value) -> Result<String, ApiError> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            Ok(parts.iter().filter_map(|part| part.get("text")?.as_str()).collect::<Vec<_>>().join("\n"))
        }
        _ => Err(ApiError::bad_request("message content must be a string or a list of parts.".into())),
    }
}

/// `POST /v1/completions`.
#[derive(Debug, Deserialize)]
pub(crate) struct Completion {
    #[serde(flatten)]
    pub(crate) sampling: Sampling,
    prompt: Prompt,
    #[serde(default)]
    pub(crate) echo: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

/// A prompt as text, if it was one, and as tokens.
pub(crate) struct Tokenized {
    pub(crate) text: String,
    pub(crate) tokens: Vec<u32>,
}

// === impl Completion ===

impl Completion {
    pub(crate) fn prompts(&self) -> Result<Vec<Tokenized>, ApiError> {
        let from_text = |text: &String| Tokenized { text: text.clone(), tokens: text::tokens(text) };
        let from_tokens = |tokens: &Vec<u32>| Tokenized { text: String::new(), tokens: tokens.clone() };
        let prompts: Vec<_> = match &self.prompt {
            Prompt::Text(text) => vec![from_text(text)],
            Prompt::Texts(texts) => texts.iter().map(from_text).collect(),
            Prompt::Tokens(tokens) => vec![from_tokens(tokens)],
            Prompt::TokenLists(lists) => lists.iter().map(from_tokens).collect(),
        };
        if prompts.is_empty() || prompts.iter().any(|prompt| prompt.tokens.is_empty()) {
            return Err(ApiError::bad_request("prompt must not be empty.".into()));
        }
        if prompts.len() > MAX_CHOICES {
            return Err(ApiError::bad_request(format!("at most {MAX_CHOICES} prompts are taken at once.")));
        }
        Ok(prompts)
    }
}

/// `POST /tokenize`.
#[derive(Debug, Deserialize)]
pub(crate) struct Tokenize {
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    messages: Vec<Message>,
}

// === impl Tokenize ===

impl Tokenize {
    pub(crate) fn text(&self) -> Result<String, ApiError> {
        match &self.prompt {
            Some(prompt) => Ok(prompt.clone()),
            None if self.messages.is_empty() => {
                Err(ApiError::bad_request("either prompt or messages must be given.".into()))
            }
            None => layout(&self.messages),
        }
    }
}

/// Decodes a JSON body with errors in the API's own form; the Content-Type is not insisted on, as curl users forget it.
async fn decode<T: DeserializeOwned, S: Send + Sync>(request: Request, state: &S) -> Result<T, ApiError> {
    let body =
        Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status().as_u16() {
            413 => ApiError::too_large(rejection.body_text()),
            _ => ApiError::bad_request(rejection.body_text()),
        })?;
    serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(format!("request body: {error}")))
}

macro_rules! extract {
    ($($kind:ty),*) => {$(
        impl<S: Send + Sync> FromRequest<S> for $kind {
            type Rejection = ApiError;
            async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
                decode(request, state).await
            }
        }
    )*};
}
extract!(Chat, Completion, Tokenize);
