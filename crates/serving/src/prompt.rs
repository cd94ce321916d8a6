//! How a conversation becomes the text and the tokens of a prompt.

use serde_json::json;

use crate::{
    Item, Layout, Message, Model, Refusal, Tool,
    layout::{LayoutOptions, ReasoningEffort},
};

/// Variables of chat templates that requests say in other fields.
const RESERVED_VARIABLES: [&str; 7] = [
    "messages",
    "tools",
    "add_generation_prompt",
    "continue_final_message",
    "bos_token",
    "eos_token",
    "chat_template",
];

/// Marks the end of the message that the model continues, as in Hugging Face's libraries, because its text may also occur in what the
/// template writes after it. The space at the end shows whether the template keeps white space there.
const END_MARK: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// The text of a conversation.
pub(crate) fn render(
    model: &dyn Model,
    messages: &[Message],
    tools: &[Tool],
    options: &LayoutOptions<'_>,
) -> Result<String, Refusal> {
    let opens_answer = options.add_generation_prompt.unwrap_or(true);
    let continues = options.continue_final_message == Some(true);
    if opens_answer && continues {
        let message = "Cannot set both `continue_final_message` and `add_generation_prompt` to True.";
        return Err(Refusal::bad_request(message));
    }
    let mut variables = options.variables.cloned().unwrap_or_default();
    if let Some(name) = RESERVED_VARIABLES.iter().find(|name| variables.contains_key(**name)) {
        let field = format!("chat_template_kwargs.{name}");
        return Err(Refusal::field(
            field.clone(),
            format!("{field}: the request has another field for this."),
        ));
    }
    if let Some(effort) = options.reasoning_effort {
        variables.entry("reasoning_effort").or_insert_with(|| json!(effort));
        // Templates of models that think or do not think know this variable only.
        variables.entry("enable_thinking").or_insert_with(|| json!(effort != ReasoningEffort::None));
    }
    let apply = |messages| {
        model.apply_chat_template(&Layout { messages, tools, opens_answer, variables: &variables })
    };
    if continues { cut(apply(&marked(messages))?) } else { apply(messages) }
}

/// The same messages with the mark at the end of the last one.
fn marked(messages: &[Message]) -> Vec<Message> {
    let mut messages = messages.to_owned();
    if let Some(last) = messages.last_mut() {
        last.text += END_MARK;
    }
    messages
}

/// The text up to the mark.
fn cut(mut text: String) -> Result<String, Refusal> {
    // The last occurrence: a person may have written the mark into an earlier message.
    let Some(end) = text.rfind(END_MARK.trim_end()) else {
        return Err(Refusal::bad_request(
            "continue_final_message is set but the final message does not appear in the chat after applying the chat \
             template.",
        ));
    };
    let is_whole = text[end..].starts_with(END_MARK);
    text.truncate(end);
    if !is_whole {
        // This template leaves white space at the end of messages out, so the model has not seen it there either.
        text.truncate(text.trim_end().len());
    }
    Ok(text)
}

/// Returns the tokens of a text that contains the placeholders of these items in this order.
pub(crate) fn tokens(model: &dyn Model, text: &str, items: &[Item]) -> Vec<u32> {
    let Some(media) = model.media() else { return model.tokens(text) };
    let (mut tokens, mut rest) = (Vec::new(), text);
    for item in items {
        // A template may omit a message; then its items are omitted, too.
        let Some((before, after)) = rest.split_once(&item.placeholder()) else { continue };
        tokens.extend(model.tokens(before));
        tokens.extend(item.tokens(media.tokens));
        rest = after;
    }
    tokens.extend(model.tokens(rest));
    tokens
}
