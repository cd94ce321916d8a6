//! The fields of a request to `/v1/responses`.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Job, Model, Part, Refusal, Tool,
    body::object_only,
    fields,
    job::{self, known_model, unsupported},
    layout::{LayoutOptions, ReasoningEffort},
    messages::Reader,
    sampling, shape, tools,
};

use super::input::Conversation;

/// The fields of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", expecting = "an object", default)]
pub(crate) struct Fields {
    model: Option<String>,
    input: Value,
    pub(super) instructions: Option<String>,
    pub(super) max_output_tokens: Option<i64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_logprobs: Option<i64>,
    include: Option<Vec<String>>,
    pub(super) stream: Option<bool>,
    pub(super) tools: Option<Vec<Value>>,
    pub(super) tool_choice: Option<Value>,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) text: Option<Value>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    pub(super) service_tier: Option<ServiceTier>,
    pub(super) user: Option<String>,
    pub(super) request_id: Option<String>,
    previous_response_id: Option<String>,
    background: Option<bool>,
    truncation: Option<String>,
    prompt: Option<Value>,
    conversation: Option<Value>,
    pub(super) reasoning: Option<Reasoning>,
    max_tool_calls: Option<i64>,
    // What follows is vLLM's own, and means what it means in chat.
    top_k: Option<i64>,
    min_p: Option<f64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    stop_token_ids: Option<Vec<u32>>,
    stop: Option<fields::OneOrMany>,
    seed: Option<i64>,
    ignore_eos: Option<bool>,
    repetition_penalty: Option<f64>,
    logit_bias: Option<BTreeMap<String, f64>>,
    skip_special_tokens: Option<bool>,
    include_stop_str_in_output: Option<bool>,
    structured_outputs: Option<Value>,
    cache_salt: Option<Value>,
    priority: Option<i64>,
    mm_processor_kwargs: Option<Value>,
    media_io_kwargs: Option<Value>,
    previous_input_messages: Option<Value>,
    vllm_xargs: Option<Map<String, Value>>,
}

/// How much a model thinks.
#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", expecting = "an object", default)]
pub(crate) struct Reasoning {
    pub(super) effort: Option<ReasoningEffort>,
    // What follows has no effect in vLLM, which repeats it in the response.
    pub(super) context: Option<String>,
    pub(super) generate_summary: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) summary: Option<String>,
}

/// The processing that a client asks for. It has no effect.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServiceTier {
    #[default]
    Auto,
    Default,
    Flex,
    Scale,
    Priority,
}

object_only!(Fields, Reasoning);

/// The additional output that clients may request: token probabilities.
const LOGPROBS: &str = "message.output_text.logprobs";

/// Checks a request.
pub(super) fn read(model: &Arc<dyn Model>, fields: &mut Fields) -> Result<Job, Refusal> {
    let name = known_model(model, fields.model.as_deref())?;
    if let Some(id) = &fields.previous_response_id {
        return Err(not_stored(id));
    }
    Refusal::check_unsupported([
        ("background", fields.background == Some(true)),
        ("truncation", fields.truncation.as_deref().is_some_and(|kind| kind != "disabled")),
        ("prompt", fields.prompt.is_some()),
        ("conversation", fields.conversation.is_some()),
        ("max_tool_calls", fields.max_tool_calls.is_some()),
        ("media_io_kwargs", fields.media_io_kwargs.is_some()),
        ("previous_input_messages", fields.previous_input_messages.is_some()),
    ])?;
    let include = fields.include.as_deref().unwrap_or_default();
    if include.iter().any(|item| item != LOGPROBS && item != "reasoning.encrypted_content") {
        return Err(Refusal::field("include", format!("include: only `{LOGPROBS}` is supported.")));
    }
    // The sampling fields are checked as in chat, under the names that they have in chat.
    let wants_logprobs = include.iter().any(|item| item == LOGPROBS);
    let as_chat = fields::Fields {
        // With messages, `logprobs` is a flag as in chat, not a number as in completions.
        messages: Some(Vec::new()),
        temperature: fields.temperature,
        top_p: fields.top_p,
        logprobs: Some(fields::LogprobsField::Flag(wants_logprobs)),
        top_logprobs: fields.top_logprobs.filter(|_| wants_logprobs),
        max_completion_tokens: fields.max_output_tokens,
        top_k: fields.top_k,
        min_p: fields.min_p,
        frequency_penalty: fields.frequency_penalty,
        presence_penalty: fields.presence_penalty,
        stop_token_ids: fields.stop_token_ids.take(),
        stop: fields.stop.take(),
        seed: fields.seed,
        ignore_eos: fields.ignore_eos,
        repetition_penalty: fields.repetition_penalty,
        logit_bias: fields.logit_bias.take(),
        skip_special_tokens: fields.skip_special_tokens,
        include_stop_str_in_output: fields.include_stop_str_in_output,
        structured_outputs: fields.structured_outputs.take(),
        cache_salt: fields.cache_salt.take(),
        priority: fields.priority,
        mm_processor_kwargs: fields.mm_processor_kwargs.take(),
        vllm_xargs: fields.vllm_xargs.take(),
        ..fields::Fields::default()
    };
    unsupported(&as_chat)?;
    let mut reader = Reader::new(&name, model.media());
    let Conversation { messages, continues } =
        Conversation::read(fields.instructions.as_deref(), &fields.input, &mut reader)?;
    let known_tools = tools::list(fields.tools.as_deref().unwrap_or_default(), "")?;
    let shape = match &fields.text {
        Some(text) => {
            shape::format_of(&text["format"], "text.format")?.map(|shape| (shape, "text.format".to_owned()))
        }
        None => None,
    };
    let shape = match (shape, shape::read(&as_chat)?) {
        (Some(_), Some(_)) => return Err(shape::several()),
        (shape, other) => shape.or(other),
    };
    let items = reader.items();
    let choice = tool_choice(fields.tool_choice.as_ref(), &known_tools)?;
    let tools = tools::choose(known_tools.clone(), choice, fields.parallel_tool_calls)?;
    let layout_options = LayoutOptions {
        add_generation_prompt: Some(!continues),
        continue_final_message: Some(continues),
        reasoning_effort: fields.reasoning.as_ref().and_then(|reasoning| reasoning.effort),
        ..LayoutOptions::default()
    };
    let (sampling, _) = sampling::read(&as_chat)?;
    let limit = job::limit(model.card(), &as_chat, "max_output_tokens")?;
    let model = model.as_ref();
    let (prompt, follows_a_tool) =
        job::conversation(model, messages, &known_tools, &layout_options, &items, limit, Part::Whole)?;
    Ok(Job { tools, follows_a_tool, items, ..Job::new(name, vec![prompt], sampling, shape) })
}

/// Checks what only this API says of its tools.
fn tool_choice<'a>(choice: Option<&'a Value>, tools: &[Tool]) -> Result<Option<&'a Value>, Refusal> {
    let refuse = |message: &str| Err(Refusal::parameter("tool_choice", message, None));
    match choice {
        // Clients send their default without tools, too.
        Some(choice) if choice == "auto" && tools.is_empty() => Ok(None),
        Some(choice) if choice == "required" && tools.is_empty() => {
            refuse("Tool choice 'required' must be specified with 'tools' parameter.")
        }
        Some(choice) if choice["type"] == "function" => {
            if !tools.iter().any(|tool| choice["name"] == *tool.name) {
                return refuse("Tool choice 'function' not found in 'tools' parameter.");
            }
            Ok(Some(choice))
        }
        Some(choice) if choice.is_object() => {
            refuse("Invalid value for `type` in `tool_choice`! Only `function` is supported.")
        }
        choice => Ok(choice),
    }
}

/// Returns the error for a response that is not stored.
pub(super) fn not_stored(id: &str) -> Refusal {
    let id: String = id.chars().take(100).collect();
    Refusal::unknown_response(&id)
}
