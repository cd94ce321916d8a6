//! The response object.

use serde_json::{Value, json};

use super::request::Fields;
use crate::{
    Call, Job, Token,
    answers::{Answer, Usage},
    logprobs,
    reply::{now, unique},
};

/// The common fields of all forms of one response.
pub(super) struct Form {
    pub(super) object: Value,
    pub(super) with_logprobs: bool,
}

impl Form {
    pub(super) fn new(id: &str, job: &Job, fields: &Fields) -> Self {
        let object = json!({
            "id": id,
            "object": "response",
            "created_at": now(),
            "status": "in_progress",
            "background": false,
            "error": null,
            "incomplete_details": null,
            "instructions": fields.instructions,
            "max_output_tokens": fields.max_output_tokens,
            "metadata": fields.metadata.clone().unwrap_or_else(|| json!({})),
            "model": job.model,
            "output": [],
            "parallel_tool_calls": fields.parallel_tool_calls.unwrap_or(true),
            "previous_response_id": null,
            "reasoning": null,
            "service_tier": "auto",
            "store": false,
            "temperature": job.sampling.temperature,
            "text": fields.text.clone().unwrap_or_else(|| json!({"format": {"type": "text"}})),
            "tool_choice": fields.tool_choice.clone().unwrap_or_else(|| json!("auto")),
            "tools": fields.tools.clone().unwrap_or_default(),
            "top_p": job.sampling.top_p,
            "truncation": "disabled",
            "usage": null,
        });
        Self { object, with_logprobs: job.sampling.logprobs.is_some() }
    }

    /// Returns the whole response for an answer.
    pub(super) fn whole(&self, answer: &Answer, usage: Usage) -> Value {
        let status = status(answer.reason);
        let mut output = Vec::new();
        if !answer.text.is_empty() || answer.calls.is_empty() {
            let part = self.text_part(&answer.text, &answer.tokens);
            output.push(message(&item_id("msg"), status, &[part]));
        }
        for call in &answer.calls {
            output.push(function_call(&item_id("fc"), &item_id("call"), status, call));
        }
        self.finished(output, answer.reason, usage)
    }

    /// Returns the response at its end.
    pub(super) fn finished(&self, output: Vec<Value>, reason: &str, usage: Usage) -> Value {
        let mut object = self.object.clone();
        object["status"] = status(reason).into();
        if status(reason) == "incomplete" {
            object["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        object["output"] = Value::Array(output);
        object["usage"] = json!({
            "input_tokens": usage.prompt,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.completion,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt + usage.completion,
        });
        object
    }

    /// Returns the content of a message.
    pub(super) fn text_part(&self, text: &str, tokens: &[Token]) -> Value {
        let logprobs = if self.with_logprobs { logprobs::list(tokens) } else { Vec::new() };
        json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs})
    }
}

/// Returns `incomplete` if the limit cut the answer off.
pub(super) fn status(reason: &str) -> &'static str {
    if reason == "length" { "incomplete" } else { "completed" }
}

pub(super) fn item_id(prefix: &str) -> String {
    format!("{prefix}_{}", unique())
}

pub(super) fn message(id: &str, status: &str, parts: &[Value]) -> Value {
    json!({"type": "message", "id": id, "role": "assistant", "status": status, "content": parts})
}

pub(super) fn function_call(id: &str, call_id: &str, status: &str, call: &Call) -> Value {
    json!({
        "type": "function_call", "id": id, "call_id": call_id, "status": status, "name": call.name,
        "arguments": call.arguments,
    })
}
