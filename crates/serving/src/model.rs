//! The interface between the API and a model.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use http::HeaderMap;
use serde::Serialize;
use serde_json::Value;

use crate::{Handover, Item, Layout, Media, Part, Refusal, Sampling, Shape, Tools, Vectors};

/// A model that answers prompts.
#[async_trait]
pub trait Model: Send + Sync + 'static {
    /// Returns the description of the model.
    fn card(&self) -> &Card;

    /// Tokenizes a text.
    fn tokens(&self, text: &str) -> Vec<u32>;

    /// Returns the text of tokens, special ones included, or `None` if the model cannot decode.
    fn text(&self, _tokens: &[u32]) -> Option<String> {
        None
    }

    /// Bytes of the longest token, by which a text can be too long before it is tokenized. `None` if tokenizing is cheap.
    fn longest_token(&self) -> Option<usize> {
        None
    }

    /// Renders a conversation with the model's chat template.
    fn apply_chat_template(&self, layout: &Layout<'_>) -> Result<String, Refusal>;

    /// Returns the media that the model accepts, or `None` if it is not multimodal.
    fn media(&self) -> Option<&Media> {
        None
    }

    /// Returns the properties of the model's vectors, if it is an embedding model. Such a model does not answer prompts.
    fn vectors(&self) -> Option<&Vectors> {
        None
    }

    /// Returns a vector for each prompt. Dropping the future cancels the work.
    async fn embed(self: Arc<Self>, _prompts: Vec<Vec<u32>>) -> Result<Vec<Vec<f32>>, Refusal> {
        Err(Refusal::not_found("Not Found"))
    }

    /// Starts a job. The future resolves when the model has accepted the job. Dropping the events cancels the job.
    async fn start(self: Arc<Self>, job: Job) -> Result<JobStart, Refusal>;

    /// Returns the model's adapters, which requests select by name.
    fn adapters(&self) -> Vec<Adapter> {
        Vec::new()
    }

    /// Whether requests for models that are not served are answered all the same.
    fn answers_any_model(&self) -> bool {
        false
    }

    /// Whether requests may load and unload adapters.
    fn allows_lora_updates(&self) -> bool {
        false
    }

    /// Loads an adapter. With `in_place`, it replaces the adapter with the same name.
    async fn load_adapter(self: Arc<Self>, _adapter: Adapter, _in_place: bool) -> Result<(), Refusal> {
        Err(Refusal::bad_request("This model takes no adapters while it runs."))
    }

    /// Unloads an adapter. Returns whether it was loaded.
    fn unload_adapter(&self, _name: &str) -> bool {
        false
    }

    /// Returns metrics in the OpenMetrics text format.
    fn metrics(&self) -> String;
}

/// The description of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The names under which it is served, at least one.
    pub names: Vec<String>,
    /// The folder or repository from which the model was loaded.
    pub root: String,
    /// The most tokens of a prompt together with its answer.
    pub max_model_len: usize,
    /// When it was started, in seconds since 1970.
    pub created: u64,
    /// The engine that its models belong to, for lists of models.
    pub owner: &'static str,
}

/// A LoRA adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// The name under which it is served.
    pub name: String,
    /// The path from which it was loaded.
    pub path: String,
    /// The name of the base model, if it is known.
    pub base: Option<String>,
}

/// A prompt to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The prompt as text; empty if the client sent tokens.
    pub text: String,
    /// The prompt as tokens, at least one.
    pub tokens: Vec<u32>,
    /// The last message of a conversation, or the whole prompt.
    pub last: String,
    /// The most tokens that an answer may have, at least one.
    pub limit: usize,
}

/// A checked request. Each prompt with its answer fits into the context.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The requested model or adapter.
    pub model: String,
    /// SGLang: the adapter that the request names beside the model.
    pub adapter: Option<String>,
    /// The prompts, at least one.
    pub prompts: Vec<Prompt>,
    /// The number of answers per prompt, at least one. Answers are numbered prompt by prompt.
    pub copies: usize,
    /// How tokens are sampled, and when an answer ends.
    pub sampling: Sampling,
    /// The required form of answers.
    pub shape: Option<Shape>,
    /// The field that requires this form; empty if there is none.
    pub shape_field: String,
    /// The tools that answers may or must call; `None` if no call is wanted.
    pub tools: Option<Tools>,
    /// Whether the last message is the result of a tool.
    pub follows_a_tool: bool,
    /// Images, sounds and videos in the conversation, in order.
    pub items: Vec<Item>,
    /// The part of the request that this engine computes.
    pub part: Part,
    /// The addresses at which the engines of a split request exchange its KV cache.
    pub handover: Handover,
}

// === impl Job ===

impl Job {
    /// One answer for each prompt, without tools and items. `shape` is the required form, and the field that requires it.
    pub(crate) fn new(
        model: String,
        prompts: Vec<Prompt>,
        sampling: Sampling,
        shape: Option<(Shape, String)>,
    ) -> Self {
        let (shape, shape_field) = shape.unzip();
        Self {
            model,
            adapter: None,
            prompts,
            copies: 1,
            sampling,
            shape,
            shape_field: shape_field.unwrap_or_default(),
            tools: None,
            follows_a_tool: false,
            items: Vec::new(),
            part: Part::Whole,
            handover: Handover::default(),
        }
    }
}

/// A job that a model has accepted.
pub struct JobStart {
    /// The number of prompt tokens in the prefix cache.
    pub cached_tokens: usize,
    /// The parameters with which another engine continues after a prefill.
    pub kv_transfer_params: Option<Value>,
    /// The locations of the embeddings of the request's items, for the engine that computes the prompt.
    pub ec_transfer_params: Option<Value>,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// The events in order. Each answer ends with [`Event::Finished`], and the stream ends after the last one.
    pub events: BoxStream<'static, Event>,
}

/// A token of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// What the token adds to the text of the answer; empty for the end of the answer and within a character.
    pub text: String,
    /// The text of the token itself, as lists of probabilities name it; empty if the request does not ask for them.
    pub decoded: String,
    /// The natural logarithm of its probability.
    pub logprob: f64,
    /// The most likely tokens at this position, most likely first. Empty if the request does not ask for them.
    pub top: Vec<(String, f64)>,
}

/// The cause of an early end of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Stop {
    /// A stop string.
    Text(String),
    /// A token.
    Token(u32),
}

/// An event while answers are generated.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An answer's text grew by one token.
    Text {
        /// The number of the answer.
        choice: usize,
        /// The token.
        token: Token,
    },
    /// An answer begins to call a tool.
    Call {
        /// The number of the answer.
        choice: usize,
        /// The number of the call in the answer, from 0.
        index: usize,
        /// The name of the tool.
        name: String,
    },
    /// The arguments of a call grew by one token.
    Arguments {
        /// The number of the answer.
        choice: usize,
        /// The number of the call in the answer.
        index: usize,
        /// The token.
        token: Token,
    },
    /// An answer is complete.
    Finished {
        /// The number of the answer.
        choice: usize,
        /// `stop`, `length`, `tool_calls`, `remote_decode` or `cache_threshold`.
        reason: &'static str,
        /// The stop text or token that ended the answer, if the request named it.
        stop: Option<Stop>,
    },
}
