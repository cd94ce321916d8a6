//! The items of an input, as the messages of a conversation.

use serde_json::Value;

use crate::{Call, Message, Refusal, Role, messages::Reader};

/// A conversation.
pub(super) struct Conversation {
    pub(super) messages: Vec<Message>,
    /// Whether the last message is the beginning of an answer, which the model continues.
    pub(super) continues: bool,
}

// === impl Conversation ===

impl Conversation {
    /// Reads the instructions and the input of a request.
    pub(super) fn read(
        instructions: Option<&str>,
        input: &Value,
        reader: &mut Reader<'_>,
    ) -> Result<Self, Refusal> {
        let messages = instructions.map(|text| Message::new(Role::System, text.to_owned()));
        let mut conversation = Self { messages: messages.into_iter().collect(), continues: false };
        match input {
            Value::String(text) => conversation.messages.push(Message::new(Role::User, text.clone())),
            Value::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    conversation.add(item, &format!("input[{index}]"), reader)?;
                }
                conversation.continues = items.last().is_some_and(is_partial);
            }
            Value::Array(_) => {
                let message =
                    "Cannot apply chat template to an empty conversation. Provide at least one message.";
                return Err(Refusal::bad_request(message));
            }
            _ => return Err(wrong("input must be a string or a list of items.")),
        }
        Ok(conversation)
    }

    /// Adds an item. As in vLLM, the reasoning, the text and the calls of one answer are items, but one message.
    fn add(&mut self, item: &Value, place: &str, reader: &mut Reader<'_>) -> Result<(), Refusal> {
        let text = |field: &str| {
            let text = item[field].as_str().map(str::to_owned);
            text.ok_or_else(|| wrong(format!("{place}.{field} must be a string.")))
        };
        let mut content = |field: &str, role: Role| match &item[field] {
            // Only chat has messages without content, of models that call tools.
            Value::Null => text(field),
            content => {
                let place = format!("{place}.{field}");
                check_parts(content, role, &place)?;
                reader.content(content, &place)
            }
        };
        match item["type"].as_str().unwrap_or("message") {
            "message" => {
                let role = Role::parse(item["role"].as_str().unwrap_or_default(), place)?;
                let text = content("content", role)?;
                match self.open_answer(|answer| role == Role::Assistant && answer.text.is_empty()) {
                    Some(answer) => answer.text = text,
                    None => self.messages.push(Message::new(role, text)),
                }
            }
            "function_call" => {
                let call = Call { id: text("call_id")?, name: text("name")?, arguments: text("arguments")? };
                self.answer(|_| true).calls.push(call);
            }
            "function_call_output" => {
                // vLLM takes an output without the id of its call.
                let tool_call_id = (!item["call_id"].is_null()).then(|| text("call_id")).transpose()?;
                let text = content("output", Role::Tool)?;
                self.messages.push(Message { tool_call_id, ..Message::new(Role::Tool, text) });
            }
            "reasoning" if !item["encrypted_content"].is_null() => {
                return Err(Refusal::parameter("input", "Encrypted content is not supported.", None));
            }
            "reasoning" => {
                // vLLM takes the first part, of the content or else of the summary.
                let part = |field: &str| item[field][0]["text"].as_str().map(str::to_owned);
                let reasoning = part("content").or_else(|| part("summary")).unwrap_or_default();
                self.answer(|answer| answer.reasoning.is_none()).reasoning = Some(reasoning);
            }
            kind => {
                let kind: String = kind.chars().take(40).collect();
                let message = format!("{place}: items of the type `{kind}` are not supported.");
                return Err(Refusal::field(place, message));
            }
        }
        Ok(())
    }

    /// Returns the last message if it is an answer with room for an item.
    fn open_answer(&mut self, has_room: impl Fn(&Message) -> bool) -> Option<&mut Message> {
        self.messages.last_mut().filter(|last| last.role == Role::Assistant && has_room(last))
    }

    /// Returns the answer to which an item belongs. It is a new one if the last message is none with room for it.
    fn answer(&mut self, has_room: impl Fn(&Message) -> bool) -> &mut Message {
        if self.open_answer(has_room).is_none() {
            self.messages.push(Message::new(Role::Assistant, String::new()));
        }
        let last = self.messages.len() - 1;
        &mut self.messages[last]
    }
}

/// Whether an item is the beginning of an answer.
fn is_partial(item: &Value) -> bool {
    matches!(item["type"].as_str(), None | Some("message" | "reasoning"))
        && matches!(item["status"].as_str(), Some("in_progress" | "incomplete"))
}

/// Refuses the parts that vLLM's schema does not have in such a message.
fn check_parts(content: &Value, role: Role, place: &str) -> Result<(), Refusal> {
    let expected: &[&str] = match role {
        Role::Assistant => &["input_text", "input_image", "output_text"],
        _ => &["input_text", "input_image"],
    };
    for (index, part) in content.as_array().into_iter().flatten().enumerate() {
        if let Some(kind) = part["type"].as_str().filter(|kind| !expected.contains(kind)) {
            let kind: String = kind.chars().take(40).collect();
            let expected = expected.join(", ");
            return Err(wrong(format!("{place}[{index}].type: expected one of {expected}, got `{kind}`.")));
        }
    }
    Ok(())
}

/// An item of another form. As in vLLM, the parameter is the list.
fn wrong(message: impl Into<String>) -> Refusal {
    Refusal::invalid("input", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(items: &Value) -> Result<Conversation, Refusal> {
        Conversation::read(None, items, &mut Reader::new("m", None))
    }

    fn user(content: &Value) -> Value {
        json!({"role": "user", "content": content})
    }

    #[test]
    fn the_items_of_one_answer_are_one_message() {
        let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
        let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "r"});
        let thought = |text: &str| json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]});
        let said =
            |text: &str| json!({"role": "assistant", "content": [{"type": "output_text", "text": text}]});
        let items = json!([
            user(&json!("a")), thought("t"), said("b"), call("1"), call("2"), output("1"), output("2"),
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]}, said("c"), said("d"),
        ]);
        let call = |id: &str| Call { id: id.into(), name: "f".into(), arguments: "{}".into() };
        let text = |role, text: &str| Message::new(role, text.into());
        let output = |id: &str| Message { tool_call_id: Some(id.into()), ..text(Role::Tool, "r") };
        let thinking = |reasoning: &str, message| Message { reasoning: Some(reasoning.into()), ..message };
        let first = Message { calls: vec![call("1"), call("2")], ..text(Role::Assistant, "b") };
        let expected = [
            text(Role::User, "a"),
            thinking("t", first),
            output("1"),
            output("2"),
            thinking("s", text(Role::Assistant, "c")),
            text(Role::Assistant, "d"),
        ];
        let conversation = read(&items).unwrap();
        assert_eq!(conversation.messages, expected);
        assert!(!conversation.continues);
    }

    #[test]
    fn an_answer_that_has_not_ended_is_continued() {
        for (status, continues) in [("completed", false), ("in_progress", true), ("incomplete", true)] {
            let begun = json!({"role": "assistant", "content": "b", "status": status});
            assert_eq!(read(&json!([user(&json!("a")), begun])).unwrap().continues, continues, "{status}");
        }
    }

    #[test]
    fn what_vllm_refuses_is_refused() {
        let part = |kind: &str| user(&json!([{"type": kind, "text": "x"}]));
        assert!(read(&json!([part("input_text")])).is_ok());
        for (item, words) in [
            (part("text"), "input[0].content[0].type: expected one of input_text, input_image, got `text`."),
            (part("output_text"), "got `output_text`."),
            (
                json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "text", "text": "x"}]}),
                "input[0].output[0].type",
            ),
            (json!({"type": "reasoning", "encrypted_content": "x"}), "Encrypted content is not supported."),
        ] {
            let error = read(&json!([item])).map(|_| ()).unwrap_err();
            assert!(error.message().contains(words), "{error:?}");
        }
    }
}
