//! The messages of a conversation.

use serde::Deserialize;
use serde_json::Value;

use crate::Refusal;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions, also under the name `developer`.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a call, also under the name `function`.
    Tool,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said; parts are joined by line breaks.
    pub text: String,
    /// Calls that the model made.
    pub calls: Vec<Call>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments as JSON text.
    pub arguments: String,
}

/// A message as clients send it.
#[derive(Debug, Deserialize)]
pub(crate) struct MessageField {
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) content: Value,
    #[serde(default)]
    pub(crate) tool_calls: Option<Vec<CallField>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CallField {
    function: FunctionField,
}

#[derive(Debug, Deserialize)]
struct FunctionField {
    name: String,
    #[serde(default)]
    arguments: String,
}

// === impl Role ===

impl Role {
    /// The name that chat templates use.
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

/// Checks a conversation. `model` is named where something is asked that only other kinds of models do.
pub(crate) fn read(fields: &[MessageField], model: &str) -> Result<Vec<Message>, Refusal> {
    if fields.is_empty() {
        return Err(Refusal::field("messages", "messages must not be empty."));
    }
    let one = |(index, field): (usize, &MessageField)| {
        let place = format!("messages[{index}]");
        let role = Role::parse(&field.role, &place)?;
        let calls: Vec<Call> = field
            .tool_calls
            .iter()
            .flatten()
            .map(|call| Call { name: call.function.name.clone(), arguments: call.function.arguments.clone() })
            .collect();
        if field.content.is_null() && role != Role::Assistant {
            return Err(Refusal::field(
                format!("{place}.content"),
                format!("{place}.content: Field required for the role `{}`.", field.role),
            ));
        }
        let text = content(&field.content, &format!("{place}.content"), model)?;
        Ok(Message { role, text, calls })
    };
    fields.iter().enumerate().map(one).collect()
}

/// The text of a message's content: a string, or parts that are text.
pub(crate) fn content(content: &Value, place: &str, model: &str) -> Result<String, Refusal> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().enumerate().map(|(index, part)| match (part, &part["text"]) {
                (Value::String(text), _) | (_, Value::String(text)) => Ok(text.as_str()),
                (part, _) if part["type"] == "refusal" => Ok(part["refusal"].as_str().unwrap_or_default()),
                (part, _) => {
                    let kind = part["type"].as_str().unwrap_or("unknown");
                    Err(Refusal::field(
                        format!("{place}[{index}]"),
                        format!(
                            "{place}[{index}]: {model} is not a multimodal model: it takes no part of type `{}`.",
                            kind.chars().take(40).collect::<String>()
                        ),
                    ))
                }
            });
            Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
        }
        _ => Err(Refusal::field(place, format!("{place} must be a string or a list of parts."))),
    }
}
