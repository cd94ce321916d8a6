//! The response object.

use serde_json::{Value, json};

use super::request::{Fields, Reasoning};
use crate::{
    Call, Job, Token,
    answers::{Answer, Usage},
    clock::now,
    ids::unique,
    logprobs,
    tools::call_id,
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
            "frequency_penalty": job.sampling.frequency_penalty,
            "presence_penalty": job.sampling.presence_penalty,
            "incomplete_details": null,
            "instructions": fields.instructions,
            "max_output_tokens": job.prompts.first().map(|prompt| prompt.limit),
            "max_tool_calls": null,
            "metadata": fields.metadata,
            "model": job.model,
            "output": [],
            "parallel_tool_calls": fields.parallel_tool_calls.unwrap_or(true),
            "previous_response_id": null,
            "prompt": null,
            "reasoning": fields.reasoning.as_ref().map(reasoning),
            "service_tier": fields.service_tier.unwrap_or_default(),
            "temperature": job.sampling.temperature,
            "text": fields.text.as_ref().map(text_options),
            "top_logprobs": job.sampling.logprobs,
            "tool_choice": tool_choice(fields),
            "tools": fields.tools.iter().flatten().map(tool).collect::<Vec<_>>(),
            "top_p": job.sampling.top_p,
            "truncation": "disabled",
            "usage": null,
            "user": fields.user,
            "kv_transfer_params": null,
            "ec_transfer_params": null,
            "input_messages": null,
            "output_messages": null,
        });
        Self { object, with_logprobs: job.sampling.logprobs.is_some() }
    }

    /// Returns the whole response for an answer.
    pub(super) fn whole(&self, answer: &Answer, usage: Usage) -> Value {
        let mut output = Vec::new();
        if !answer.text.is_empty() || answer.calls.is_empty() {
            let part = self.text_part(&answer.text, &answer.tokens);
            output.push(message(&item_id("msg"), "completed", &[part]));
        }
        for call in &answer.calls {
            output.push(function_call(&item_id("fc"), &call_id(), "completed", call));
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
            "input_tokens_details": {
                "cached_tokens": usage.cached, "cache_write_tokens": 0, "input_tokens_per_turn": [],
                "cached_tokens_per_turn": [],
            },
            "output_tokens": usage.completion,
            "output_tokens_details": {
                "reasoning_tokens": 0, "tool_output_tokens": 0, "output_tokens_per_turn": [],
                "tool_output_tokens_per_turn": [],
            },
            "total_tokens": usage.prompt + usage.completion,
        });
        object
    }

    /// Returns the content of a message.
    pub(super) fn text_part(&self, text: &str, tokens: &[Token]) -> Value {
        let logprobs = self.with_logprobs.then(|| logprobs::list(tokens));
        json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs})
    }
}

/// Returns `incomplete` if the limit cut the answer off.
fn status(reason: &str) -> &'static str {
    if reason == "length" { "incomplete" } else { "completed" }
}

fn reasoning(reasoning: &Reasoning) -> Value {
    let Reasoning { effort, context, generate_summary, mode, summary } = reasoning;
    json!({
        "effort": effort, "context": context, "generate_summary": generate_summary, "mode": mode, "summary": summary,
    })
}

/// How tools are chosen. No tools can be called if there are none.
fn tool_choice(fields: &Fields) -> Value {
    match &fields.tool_choice {
        _ if fields.tools.as_ref().is_none_or(Vec::is_empty) => "none".into(),
        choice => choice.clone().unwrap_or_else(|| "auto".into()),
    }
}

/// A tool with all its fields.
fn tool(tool: &Value) -> Value {
    let fields = ["allowed_callers", "async", "defer_loading", "description", "output_schema", "strict"];
    with_all(tool, &fields)
}

/// The options of the text with all their fields.
fn text_options(text: &Value) -> Value {
    let mut text = with_all(text, &["format", "verbosity"]);
    if text["format"]["type"] == "json_schema" {
        text["format"] = with_all(&text["format"], &["description", "strict"]);
    }
    text
}

fn with_all(object: &Value, fields: &[&str]) -> Value {
    let mut object = object.clone();
    if let Value::Object(known) = &mut object {
        for field in fields {
            known.entry(*field).or_insert(Value::Null);
        }
    }
    object
}

pub(super) fn item_id(prefix: &str) -> String {
    format!("{prefix}_{}", unique())
}

pub(super) fn message(id: &str, status: &str, parts: &[Value]) -> Value {
    json!({"type": "message", "id": id, "role": "assistant", "status": status, "content": parts, "phase": null})
}

pub(super) fn function_call(id: &str, call_id: &str, status: &str, call: &Call) -> Value {
    json!({
        "type": "function_call", "id": id, "call_id": call_id, "status": status, "name": call.name,
        "arguments": call.arguments, "async": null, "caller": null, "namespace": null,
    })
}
