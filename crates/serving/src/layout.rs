//! How a conversation becomes a text, as far as requests say it.

use serde_json::{Map, Value};

use crate::{Message, Model, Refusal, Tool};

/// Variables of chat templates that requests say in other fields.
const OWN: [&str; 7] = [
    "messages",
    "tools",
    "add_generation_prompt",
    "continue_final_message",
    "bos_token",
    "eos_token",
    "chat_template",
];

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
    /// A variable that has a field of its own.
    pub(crate) reasoning_effort: Option<&'a Value>,
}

/// The text of a conversation.
pub(crate) fn lay_out(
    model: &dyn Model,
    messages: &[Message],
    tools: &[Tool],
    wishes: &LayoutOptions<'_>,
) -> Result<String, Refusal> {
    let opens_answer = wishes.add_generation_prompt.unwrap_or(true);
    let continues = wishes.continue_final_message == Some(true);
    if opens_answer && continues {
        let message = "Cannot set both `continue_final_message` and `add_generation_prompt` to True.";
        return Err(Refusal::bad_request(message));
    }
    let mut variables = wishes.variables.cloned().unwrap_or_default();
    if let Some(name) = OWN.iter().find(|name| variables.contains_key(**name)) {
        let field = format!("chat_template_kwargs.{name}");
        return Err(Refusal::field(
            field.clone(),
            format!("{field}: the request has another field for this."),
        ));
    }
    if let Some(effort) = wishes.reasoning_effort.filter(|effort| !effort.is_null()) {
        variables.entry("reasoning_effort").or_insert_with(|| effort.clone());
    }
    let text = model.layout(&Layout { messages, tools, opens_answer, variables: &variables })?;
    if continues { cut(text, messages) } else { Ok(text) }
}

/// The text up to the end of what was said last.
fn cut(mut text: String, messages: &[Message]) -> Result<String, Refusal> {
    let last = messages.last().map(|message| message.text.as_str()).unwrap_or_default();
    let found = Some(last.trim()).filter(|last| !last.is_empty()).and_then(|last| text.rfind(last));
    let Some(start) = found else {
        return Err(Refusal::bad_request(
            "continue_final_message is set but the final message does not appear in the chat after applying the chat \
             template.",
        ));
    };
    // Some templates leave white space at the end of messages out.
    let whole = last.trim_start();
    let end = if text[start..].starts_with(whole) { start + whole.len() } else { start + last.trim().len() };
    text.truncate(end);
    Ok(text)
}
