//! What the API asks of a model, and what a model gives back.

use std::sync::Arc;

use futures::{future::BoxFuture, stream::BoxStream};
use http::HeaderMap;
use serde::Serialize;
use serde_json::Value;

use crate::{Handover, Item, Layout, Media, Part, Refusal, Sampling, Shape, Tools, Vectors};

/// A model that answers prompts.
pub trait Model: Send + Sync + 'static {
    /// How the model presents itself.
    fn card(&self) -> &Card;

    /// The tokens of a text.
    fn tokens(&self, text: &str) -> Vec<u32>;

    /// Bytes of the longest token, so that a text is known to be too long before it becomes tokens; none where that takes next to
    /// nothing.
    fn longest_token(&self) -> Option<usize> {
        None
    }

    /// A conversation as one text, as the model's chat template lays it out.
    fn layout(&self, layout: &Layout<'_>) -> Result<String, Refusal>;

    /// What it takes besides text; none where it is not multimodal.
    fn media(&self) -> Option<&Media> {
        None
    }

    /// What its vectors are like, if it makes vectors of texts. Such a model answers no prompts.
    fn vectors(&self) -> Option<&Vectors> {
        None
    }

    /// A vector for each prompt. Dropping the future abandons them.
    fn embed(self: Arc<Self>, prompts: Vec<Vec<u32>>) -> BoxFuture<'static, Result<Vec<Vec<f32>>, Refusal>> {
        let _ = prompts;
        Box::pin(async { Err(Refusal::not_found("Not Found")) })
    }

    /// Starts a job. Resolves when the model has taken it; dropping the events abandons it.
    fn start(self: Arc<Self>, job: Job) -> BoxFuture<'static, Result<Started, Refusal>>;

    /// Its adapters, which are asked by their names.
    fn adapters(&self) -> Vec<Adapter>;

    /// Whether requests may load adapters and unload them.
    fn lends_adapters(&self) -> bool {
        false
    }

    /// Loads an adapter; with `in_place`, in place of the one of its name.
    fn load_adapter(
        self: Arc<Self>,
        adapter: Adapter,
        in_place: bool,
    ) -> BoxFuture<'static, Result<(), Refusal>> {
        let _ = (adapter, in_place);
        Box::pin(async { Err(Refusal::bad_request("This model takes no adapters while it runs.")) })
    }

    /// Unloads an adapter. Says whether it was there.
    fn unload_adapter(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Metrics in the OpenMetrics text format.
    fn metrics(&self) -> String;
}

/// How a model presents itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The names under which it is served, at least one.
    pub names: Vec<String>,
    /// What it was started from: a folder or a repository.
    pub root: String,
    /// Tokens of a prompt and its answer together.
    pub max_model_len: usize,
    /// When it was started, in seconds since 1970.
    pub created: u64,
    /// The vLLM release whose API it has.
    pub version: &'static str,
}

/// A LoRA adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// The name under which it is served.
    pub name: String,
    /// Where it was loaded from.
    pub path: String,
    /// The name of the model that it was made for, where that was said.
    pub base: Option<String>,
}

/// A prompt to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// As text; empty where the client sent tokens.
    pub text: String,
    /// As tokens, at least one.
    pub tokens: Vec<u32>,
    /// The last thing that was said: the last message of a conversation, or the whole prompt.
    pub last: String,
    /// The most tokens that an answer may have, at least one.
    pub limit: usize,
}

/// A checked request. The context holds each prompt and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The name of the model or adapter that is asked.
    pub model: String,
    /// At least one.
    pub prompts: Vec<Prompt>,
    /// How many answers each prompt gets, at least one. Answers are numbered prompt by prompt.
    pub copies: usize,
    /// How tokens are chosen, and when an answer ends.
    pub sampling: Sampling,
    /// The form that answers must have.
    pub shape: Option<Shape>,
    /// The field that asks for this form; empty where none does.
    pub shape_field: String,
    /// Tools that answers may or must call; none where no call is wanted.
    pub tools: Option<Tools>,
    /// Whether the last message is the result of a tool.
    pub follows_a_tool: bool,
    /// Images, sounds and videos of the conversation, in order.
    pub items: Vec<Item>,
    /// Which part of the request this engine computes.
    pub part: Part,
    /// Where the parts of the request meet, if there are several.
    pub handover: Handover,
}

/// A job that a model has taken.
pub struct Started {
    /// Prompt tokens that were found in the prefix cache.
    pub cached_tokens: usize,
    /// What another engine needs to go on from a prefill.
    pub kv_transfer_params: Option<Value>,
    /// Where embeddings of the request's items are, for the engine that computes the prompt.
    pub ec_transfer_params: Option<Value>,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// What happens, in order. Each answer ends with [`Event::Finished`], and the stream ends after the last of them.
    pub events: BoxStream<'static, Event>,
}

/// A token of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// Its text.
    pub text: String,
    /// The natural logarithm of its probability.
    pub logprob: f64,
    /// The most likely tokens in its place, the likeliest first. Empty where they were not asked for.
    pub top: Vec<(String, f64)>,
}

/// What ended an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Stop {
    /// A stop string.
    Text(String),
    /// A token.
    Token(u32),
}

/// Something that happens while answers are made.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An answer's text grew by one token.
    Text {
        /// Which answer.
        choice: usize,
        /// The token.
        token: Token,
    },
    /// An answer begins to call a tool.
    Call {
        /// Which answer.
        choice: usize,
        /// Which of its calls, counted from 0.
        index: usize,
        /// The tool.
        name: String,
    },
    /// The arguments of a call grew by one token.
    Arguments {
        /// Which answer.
        choice: usize,
        /// Which of its calls.
        index: usize,
        /// The token.
        token: Token,
    },
    /// An answer is complete.
    Finished {
        /// Which answer.
        choice: usize,
        /// `stop`, `length`, `tool_calls`, `remote_decode` or `cache_threshold`.
        reason: &'static str,
        /// What ended it, if that is something that the request named.
        stop: Option<Stop>,
    },
}
