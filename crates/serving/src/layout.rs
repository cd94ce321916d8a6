//! A conversation for a chat template, and what a request says about it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Message, Tool};

/// A conversation that a model's chat template lays out.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'a> {
    /// The messages of the conversation.
    pub messages: &'a [Message],
    /// The tools that the model is told of.
    pub tools: &'a [Tool],
    /// Whether the text ends with the beginning of an answer.
    pub opens_answer: bool,
    /// More variables of the template.
    pub variables: &'a Map<String, Value>,
}

/// A request's options for the layout of its conversation.
#[derive(Debug, Default)]
pub(crate) struct LayoutOptions<'a> {
    pub(crate) add_generation_prompt: Option<bool>,
    pub(crate) continue_final_message: Option<bool>,
    pub(crate) variables: Option<&'a Map<String, Value>>,
    /// How much the model thinks.
    pub(crate) reasoning_effort: Option<ReasoningEffort>,
}

/// How much a model thinks before it answers, as a variable of its chat template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}
