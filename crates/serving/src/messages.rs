//! The messages of a conversation.

use serde::Deserialize;
use serde_json::Value;

use crate::{Item, Media, Refusal, body::object_only, media};

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions; `developer` is another name.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call; `function` is another name.
    Tool,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text; parts are joined by line breaks.
    pub text: String,
    /// Tool calls of the model.
    pub calls: Vec<Call>,
    /// The name of the participant, if it has one.
    pub name: Option<String>,
    /// For the result of a tool call, the id of the call.
    pub tool_call_id: Option<String>,
    /// For an answer of the model, its reasoning.
    pub reasoning: Option<String>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Call {
    /// The id to which the result of the call refers; empty for calls that the model has just made.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
}

/// A message in a request.
#[derive(Debug, Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
pub(crate) struct MessageField {
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) content: Value,
    #[serde(default)]
    pub(crate) tool_calls: Option<Vec<CallField>>,
    name: Option<String>,
    tool_call_id: Option<String>,
    reasoning: Option<String>,
    /// The older name of `reasoning`.
    reasoning_content: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
pub(crate) struct CallField {
    id: String,
    function: FunctionField,
}

#[derive(Debug, Deserialize)]
#[serde(remote = "Self", expecting = "an object")]
struct FunctionField {
    name: String,
    #[serde(default)]
    arguments: String,
}

object_only!(MessageField, CallField, FunctionField);

// === impl Role ===

impl Role {
    /// Returns the name that chat templates use.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    pub(crate) fn parse(name: &str, place: &str) -> Result<Self, Refusal> {
        match name {
            "system" | "developer" => Ok(Self::System),
            "user" => Ok(Self::User),
            "assistant" => Ok(Self::Assistant),
            "tool" | "function" => Ok(Self::Tool),
            _ => Err(Refusal::field(
                format!("{place}.role"),
                format!(
                    "{place}.role: Unexpected message role `{}`; expected system, developer, user, assistant or tool.",
                    name.chars().take(40).collect::<String>()
                ),
            )),
        }
    }
}

// === impl Message ===

impl Message {
    /// A message with nothing but a text.
    pub fn new(role: Role, text: String) -> Self {
        Self { role, text, calls: Vec::new(), name: None, tool_call_id: None, reasoning: None }
    }
}

/// Reads the messages for a model.
pub(crate) struct Reader<'a> {
    /// The model's name, for errors about features that only other models have.
    model: &'a str,
    media: Option<&'a Media>,
    items: Vec<Item>,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub(crate) fn new(model: &'a str, media: Option<&'a Media>) -> Self {
        Self { model, media, items: Vec::new() }
    }

    /// Returns the images, sounds and videos that were read, in order.
    pub(crate) fn items(self) -> Vec<Item> {
        self.items
    }

    /// Reads and checks a conversation.
    pub(crate) fn read(&mut self, fields: &[MessageField]) -> Result<Vec<Message>, Refusal> {
        if fields.is_empty() {
            let message =
                "Cannot apply chat template to an empty conversation. Provide at least one message.";
            return Err(Refusal::bad_request(message));
        }
        fields
            .iter()
            .enumerate()
            .map(|(index, field)| self.message(field, &format!("messages[{index}]")))
            .collect()
    }

    fn message(&mut self, field: &MessageField, place: &str) -> Result<Message, Refusal> {
        let role = Role::parse(&field.role, place)?;
        let calls: Vec<Call> = field
            .tool_calls
            .iter()
            .flatten()
            .map(|call| Call {
                id: call.id.clone(),
                name: call.function.name.clone(),
                arguments: call.function.arguments.clone(),
            })
            .collect();
        // An answer that only calls tools has no content.
        if field.content.is_null() && role != Role::Assistant {
            return Err(Refusal::invalid(
                &format!("{place}.content"),
                format!("{place}.content: Field required for the role `{}`.", field.role),
            ));
        }
        // vLLM's schema of chat does not have these parts, but it takes them beside a part that it has.
        let is_of_responses = |part: &Value| part["type"] == "input_text" || part["type"] == "output_text";
        if let Some(parts) = field.content.as_array().filter(|parts| !parts.is_empty())
            && parts.iter().all(is_of_responses)
        {
            let place = format!("{place}.content[0].type");
            let message = format!("{place}: Input should be 'text', got {}.", parts[0]["type"]);
            return Err(Refusal::invalid(&place, message));
        }
        let text = self.content(&field.content, &format!("{place}.content"))?;
        // As in vLLM, only the messages to which they belong have these fields.
        let of = |author: Role, value: &Option<String>| value.clone().filter(|_| role == author);
        Ok(Message {
            calls,
            name: field.name.clone(),
            tool_call_id: of(Role::Tool, &field.tool_call_id),
            reasoning: of(Role::Assistant, &field.reasoning)
                .or_else(|| of(Role::Assistant, &field.reasoning_content)),
            ..Message::new(role, text)
        })
    }

    /// Returns the text of a message's content: a string, or text parts, with placeholders for other parts.
    pub(crate) fn content(&mut self, content: &Value, place: &str) -> Result<String, Refusal> {
        match content {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            Value::Array(parts) => {
                let mut texts = Vec::with_capacity(parts.len());
                for (index, part) in parts.iter().enumerate() {
                    texts.push(self.part(part, || format!("{place}[{index}]"))?);
                }
                Ok(texts.join("\n"))
            }
            _ => Err(Refusal::invalid(place, format!("{place} must be a string or a list of parts."))),
        }
    }

    fn part(&mut self, part: &Value, place: impl Fn() -> String) -> Result<String, Refusal> {
        let Some(kind) = part["type"].as_str() else {
            let place = format!("{}.type", place());
            return Err(Refusal::invalid(&place, format!("{place}: Field required.")));
        };
        let field = match kind {
            "text" | "input_text" | "output_text" => "text",
            "refusal" | "thinking" => kind,
            _ => {
                let modality = media::modality(kind)?;
                let Some(media) = self.media else {
                    return Err(Refusal::bad_request(format!("{} is not a multimodal model", self.model)));
                };
                return media::read(part, modality, media, &mut self.items, &place());
            }
        };
        part[field].as_str().map(str::to_owned).ok_or_else(|| {
            let place = format!("{}.{field}", place());
            Refusal::invalid(&place, format!("{place} must be a string."))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(messages: Value) -> Result<Vec<Message>, Refusal> {
        let fields: Vec<MessageField> = serde_json::from_value(messages).unwrap();
        Reader::new("m", None).read(&fields)
    }

    #[test]
    fn parts_of_responses_need_a_part_of_chat_beside_them() {
        let part = |kind: &str| json!({"type": kind, "text": "x"});
        let message = |parts: &[&str]| {
            let parts: Vec<Value> = parts.iter().map(|kind| part(kind)).collect();
            read(json!([{"role": "user", "content": parts}])).map(|messages| messages[0].text.clone())
        };
        assert_eq!(message(&["input_text", "text"]), Ok("x\nx".to_owned()));
        let words = "messages[0].content[0].type: Input should be 'text', got \"input_text\".";
        assert_eq!(message(&["input_text"]).unwrap_err().message(), words);
        assert!(message(&["output_text", "input_text"]).is_err());
    }

    #[test]
    fn chat_templates_get_the_fields_that_belong_to_a_message() {
        let function = json!({"name": "f", "arguments": "{}"});
        let call = json!({"id": "c1", "type": "function", "function": function});
        let both = json!({"tool_call_id": "c1", "reasoning_content": "Hm."});
        let with = |role: &str, mut fields: Value| {
            fields["role"] = role.into();
            fields["content"] = "x".into();
            fields
        };
        let read = read(json!([
            with("user", json!({"name": "ann", "reasoning": "Hm."})),
            with("assistant", json!({"reasoning": "Hm.", "tool_calls": [call]})),
            with("assistant", both.clone()),
            with("tool", both),
        ]));
        let plain = |role| Message::new(role, "x".into());
        let call = Call { id: "c1".into(), name: "f".into(), arguments: "{}".into() };
        let reasoning = Some("Hm.".to_owned());
        let expected = vec![
            Message { name: Some("ann".into()), ..plain(Role::User) },
            Message { reasoning: reasoning.clone(), calls: vec![call], ..plain(Role::Assistant) },
            Message { reasoning, ..plain(Role::Assistant) },
            Message { tool_call_id: Some("c1".into()), ..plain(Role::Tool) },
        ];
        assert_eq!(read, Ok(expected));
    }
}
