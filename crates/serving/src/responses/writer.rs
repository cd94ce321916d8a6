//! The events of a streamed response.

use serde_json::{Value, json};

use super::form::{Form, function_call, item_id, message};
use crate::{
    Call, Event, Token,
    answers::{Usage, tokens},
    logprobs,
    tools::call_id,
};

/// Converts events of the model to events of the API.
pub(super) struct Writer {
    form: Form,
    usage: Usage,
    number: u64,
    done: Vec<Value>,
    open: Option<Open>,
}

/// The item that is being written.
enum Open {
    Message { id: String, text: String, tokens: Vec<Token> },
    Call { id: String, call_id: String, call: Call },
}

impl Writer {
    pub(super) fn new(form: Form, usage: Usage) -> Self {
        Self { form, usage, number: 0, done: Vec::new(), open: None }
    }

    /// Returns the events before the first token.
    pub(super) fn opening(&mut self) -> Vec<Value> {
        ["response.created", "response.in_progress"]
            .map(|kind| {
                let response = self.form.object.clone();
                self.event(kind, json!({"response": response}))
            })
            .into()
    }

    /// Returns the API's events for one event of the model.
    pub(super) fn events(&mut self, event: Event) -> Vec<Value> {
        self.usage.completion += tokens(&event);
        let mut out = Vec::new();
        match event {
            Event::Text { token, .. } => self.text(token, &mut out),
            Event::Call { name, .. } => {
                self.close(&mut out);
                let (id, call_id) = (item_id("fc"), call_id());
                let call = Call { name, ..Call::default() };
                let item = function_call(&id, &call_id, "in_progress", &call);
                out.push(self.at_item("response.output_item.added", json!({"item": item})));
                self.open = Some(Open::Call { id, call_id, call });
            }
            Event::Arguments { token, .. } => {
                if let Some(Open::Call { id, call, .. }) = &mut self.open {
                    call.arguments += &token.text;
                    let fields = json!({"item_id": id, "delta": token.text});
                    out.push(self.at_item("response.function_call_arguments.delta", fields));
                }
            }
            Event::Finished { reason, .. } => {
                // An answer without a text still has a message, as when it comes whole.
                if self.open.is_none() && self.done.is_empty() {
                    self.open_message(&mut out);
                }
                self.close(&mut out);
                let response = self.form.finished(std::mem::take(&mut self.done), reason, self.usage);
                // vLLM's last event has this name even if the limit cut the answer off.
                out.push(self.event("response.completed", json!({"response": response})));
            }
        }
        out
    }

    fn text(&mut self, token: Token, out: &mut Vec<Value>) {
        // A token of a call, or the end of the answer.
        if token.text.is_empty() {
            if let Some(Open::Message { tokens, .. }) = &mut self.open {
                tokens.push(token);
            }
            return;
        }
        if !matches!(self.open, Some(Open::Message { .. })) {
            self.close(out);
            self.open_message(out);
        }
        let logprobs = if self.form.with_logprobs {
            logprobs::without_bytes(std::slice::from_ref(&token))
        } else {
            Vec::new()
        };
        if let Some(Open::Message { id, text, tokens }) = &mut self.open {
            *text += &token.text;
            let fields =
                json!({"item_id": id, "content_index": 0, "delta": token.text, "logprobs": logprobs});
            tokens.push(token);
            out.push(self.at_item("response.output_text.delta", fields));
        }
    }

    fn open_message(&mut self, out: &mut Vec<Value>) {
        let id = item_id("msg");
        let item = message(&id, "in_progress", &[]);
        out.push(self.at_item("response.output_item.added", json!({"item": item})));
        let mut part = self.form.text_part("", &[]);
        part["logprobs"] = json!([]);
        let fields = json!({"item_id": id, "content_index": 0, "part": part});
        out.push(self.at_item("response.content_part.added", fields));
        self.open = Some(Open::Message { id, text: String::new(), tokens: Vec::new() });
    }

    /// Ends the open item.
    fn close(&mut self, out: &mut Vec<Value>) {
        let item = match self.open.take() {
            None => return,
            Some(Open::Message { id, text, tokens }) => {
                let part = self.form.text_part(&text, &tokens);
                let fields = json!({
                    "item_id": id, "content_index": 0, "text": text, "logprobs": [],
                });
                out.push(self.at_item("response.output_text.done", fields));
                let fields = json!({"item_id": id, "content_index": 0, "part": part});
                out.push(self.at_item("response.content_part.done", fields));
                message(&id, "completed", &[part])
            }
            Some(Open::Call { id, call_id, call }) => {
                let fields = json!({"item_id": id, "name": call.name, "arguments": call.arguments});
                out.push(self.at_item("response.function_call_arguments.done", fields));
                function_call(&id, &call_id, "completed", &call)
            }
        };
        out.push(self.at_item("response.output_item.done", json!({"item": item})));
        self.done.push(item);
    }

    /// Returns an event about the open item, or about the item that is opened next.
    fn at_item(&mut self, kind: &str, mut fields: Value) -> Value {
        fields["output_index"] = self.done.len().into();
        self.event(kind, fields)
    }

    fn event(&mut self, kind: &str, mut fields: Value) -> Value {
        fields["type"] = kind.into();
        fields["sequence_number"] = self.number.into();
        self.number += 1;
        fields
    }
}
