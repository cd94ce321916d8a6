//! Converts the fields of a request to a checked [`Job`].

use std::sync::Arc;

use crate::{
    Card, Item, Job, Message, Model, Part, Prompt, Refusal, Role, Sampling, Tool,
    fields::{Fields, PromptField},
    layout::LayoutOptions,
    messages::Reader,
    prompt, sampling, shape, tools,
};

/// The default limit of completions in vLLM and in OpenAI's API.
const COMPLETION_LIMIT: usize = 16;

/// The most prompts in one request. Evaluations send hundreds.
const MAX_PROMPTS: usize = 1024;
/// The most answers to all prompts of a request, each of which takes memory.
const MAX_ANSWERS: usize = 1 << 14;

/// A checked request, with the form of its response.
pub(crate) struct ParsedRequest {
    pub(crate) job: Job,
    pub(crate) output: Output,
}

/// The form of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) stream: bool,
    /// Whether a stream ends with token counts.
    pub(crate) include_usage: bool,
    /// Whether each chunk has token counts.
    pub(crate) continuous_usage: bool,
}

/// Returns the model name for the response: the requested name if it is served, or the first name if the request has none,
/// as in vLLM.
pub(crate) fn known_model(model: &Arc<dyn Model>, requested: Option<&str>) -> Result<String, Refusal> {
    let card = model.card();
    match requested {
        // vLLM takes an empty name for none.
        None | Some("") => Ok(card.names.first().cloned().unwrap_or_default()),
        Some(name)
            if model.answers_any_model()
                || card.names.iter().any(|known| known == name)
                || model.adapters().iter().any(|known| known.name == name) =>
        {
            Ok(name.to_owned())
        }
        Some(name) => Err(Refusal::unknown_model(name, &card.names)),
    }
}

/// Checks a chat request.
pub(crate) fn chat(model: &Arc<dyn Model>, fields: &Fields) -> Result<ParsedRequest, Refusal> {
    let name = known_model(model, fields.model.as_deref())?;
    unsupported(fields)?;
    let adds_special_tokens = fields.add_special_tokens == Some(true);
    Refusal::check_unsupported([
        ("echo", fields.echo == Some(true)),
        ("add_special_tokens", adds_special_tokens),
    ])?;
    let Some(messages) = &fields.messages else {
        return Err(Refusal::invalid("messages", "messages: Field required."));
    };
    if fields.tools.as_ref().is_some_and(Vec::is_empty) {
        let message = "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.";
        return Err(Refusal::parameter("tools", message, None));
    }
    let known_tools = tools::list(fields.tools.as_deref().unwrap_or_default(), ".function")?;
    let mut reader = Reader::new(&name, model.media());
    let messages = reader.read(messages)?;
    let items = reader.items();
    // The template shows tools also with `tool_choice: none`: vLLM leaves them out only with --exclude-tools-when-tool-choice-none.
    let tools = tools::choose(known_tools.clone(), fields.tool_choice.as_ref(), fields.parallel_tool_calls)?;
    let (sampling, copies) = sampling::read(fields)?;
    let limit = limit(model.card(), fields, "max_completion_tokens")?;
    let shape = shape::read(fields)?;
    let (part, output) = (fields.part(), output(fields)?);
    let options = LayoutOptions {
        add_generation_prompt: fields.add_generation_prompt,
        continue_final_message: fields.continue_final_message,
        variables: fields.chat_template_kwargs.as_ref(),
        reasoning_effort: fields.reasoning_effort,
    };
    let (prompt, follows_a_tool) =
        conversation(model.as_ref(), messages, &known_tools, &options, &items, limit, part)?;
    check_min_tokens(&prompt, &sampling, part)?;
    let job = Job {
        adapter: fields.lora_path.clone(),
        copies,
        tools,
        follows_a_tool,
        items,
        part,
        handover: fields.handover(),
        ..Job::new(name, vec![prompt], sampling, shape)
    };
    Ok(ParsedRequest { job, output })
}

/// Lays out a conversation as a prompt. Also returns whether its last message is the result of a tool. `limit` is what the client asks for.
pub(crate) fn conversation(
    model: &dyn Model,
    messages: Vec<Message>,
    known_tools: &[Tool],
    layout_options: &LayoutOptions<'_>,
    items: &[Item],
    limit: Option<usize>,
    part: Part,
) -> Result<(Prompt, bool), Refusal> {
    let text = prompt::render(model, &messages, known_tools, layout_options)?;
    let last = messages.into_iter().next_back();
    let (last, follows_a_tool) =
        last.map(|message| (message.text, message.role == Role::Tool)).unwrap_or_default();
    check_length(model, &text)?;
    let tokens = prompt::tokens(model, &text, items);
    let limit = answer_limit(model.card(), tokens.len(), limit, None, part)?;
    Ok((Prompt { text, tokens, last, limit }, follows_a_tool))
}

/// Checks a completion request.
pub(crate) fn completion(model: &Arc<dyn Model>, fields: &Fields) -> Result<ParsedRequest, Refusal> {
    let name = known_model(model, fields.model.as_deref())?;
    unsupported(fields)?;
    for (name, is_there) in [("messages", fields.messages.is_some()), ("tools", fields.tools.is_some())] {
        if is_there {
            return Err(Refusal::field(name, format!("{name} belongs to /v1/chat/completions.")));
        }
    }
    Refusal::check_unsupported([("add_special_tokens", fields.add_special_tokens == Some(false))])?;
    let (sampling, copies) = sampling::read(fields)?;
    if fields.echo == Some(true) && sampling.logprobs.is_some() {
        return Err(Refusal::field("echo", "echo together with logprobs is not supported by this server."));
    }
    let part = fields.part();
    let requested = limit(model.card(), fields, "max_completion_tokens")?;
    let prompts = prompts(model.as_ref(), fields)?
        .into_iter()
        .map(|(text, tokens)| {
            let limit = answer_limit(model.card(), tokens.len(), requested, Some(COMPLETION_LIMIT), part)?;
            let prompt = Prompt { last: text.clone(), text, tokens, limit };
            check_min_tokens(&prompt, &sampling, part)?;
            Ok(prompt)
        })
        .collect::<Result<Vec<_>, Refusal>>()?;
    let answers = prompts.len() * copies;
    if answers > MAX_ANSWERS {
        let message = format!("n times the number of prompts must be at most {MAX_ANSWERS}, got {answers}.");
        return Err(Refusal::field("n", message));
    }
    let shape = shape::read(fields)?;
    let job = Job {
        adapter: fields.lora_path.clone(),
        copies,
        part,
        handover: fields.handover(),
        ..Job::new(name, prompts, sampling, shape)
    };
    Ok(ParsedRequest { job, output: output(fields)? })
}

fn prompts(model: &dyn Model, fields: &Fields) -> Result<Vec<(String, Vec<u32>)>, Refusal> {
    let is_empty = |field: &PromptField| matches!(field, PromptField::Text(text) if text.is_empty());
    let Some(field) = fields.prompt.as_ref().filter(|field| !is_empty(field)) else {
        let message = "Either prompt or prompt_embeds must be provided and non-empty.";
        return Err(Refusal::parameter("prompt", message, None));
    };
    if field.count() > MAX_PROMPTS {
        let message = format!("prompt: at most {MAX_PROMPTS} are taken at once.");
        return Err(Refusal::field("prompt", message));
    }
    let prompts = field.prompts(model)?;
    if prompts.is_empty() {
        return Err(Refusal::bad_request("You must pass at least one prompt"));
    }
    if prompts.iter().any(|(_, tokens)| tokens.is_empty()) {
        return Err(Refusal::bad_request("The decoder prompt cannot be empty"));
    }
    Ok(prompts)
}

impl PromptField {
    /// The number of prompts, which limits bound before the prompts become tokens.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::Text(_) | Self::Tokens(_) => 1,
            Self::Texts(texts) => texts.len(),
            Self::TokenLists(lists) => lists.len(),
        }
    }

    /// Returns each prompt as the text that the client sent, if it did, and as tokens.
    pub(crate) fn prompts(&self, model: &dyn Model) -> Result<Vec<(String, Vec<u32>)>, Refusal> {
        let from_text = |text: &String| {
            check_length(model, text)?;
            Ok((text.clone(), model.tokens(text)))
        };
        let from_tokens = |tokens: &Vec<u32>| (String::new(), tokens.clone());
        match self {
            Self::Text(text) => Ok(vec![from_text(text)?]),
            Self::Texts(texts) => texts.iter().map(from_text).collect(),
            Self::Tokens(tokens) => Ok(vec![from_tokens(tokens)]),
            Self::TokenLists(lists) => Ok(lists.iter().map(from_tokens).collect()),
        }
    }
}

/// Refuses a text that is too long however few tokens it becomes, as becoming tokens takes time and memory.
pub(crate) fn check_length(model: &dyn Model, text: &str) -> Result<(), Refusal> {
    let (least, most) = (
        text.len() / model.longest_token().map_or(usize::MAX, |longest| longest.max(1)),
        model.card().max_model_len,
    );
    if least <= most {
        return Ok(());
    }
    Err(too_long(most))
}

/// Like vLLM, which counts no further, names the first token that does not fit.
fn too_long(max_model_len: usize) -> Refusal {
    let first = max_model_len + 1;
    let message = format!(
        "This model's maximum context length is {max_model_len} tokens. However, your prompt contains at least \
         {first} input tokens, which exceeds this limit even without any output tokens. Please reduce the length \
         of the input prompt."
    );
    Refusal::parameter("input_tokens", message, Some(&first))
}

/// Returns the limit of the answer that the client asks for, in `max_tokens` or under the newer name. A limit that only the
/// prompt makes too large is lowered later.
pub(crate) fn limit(card: &Card, fields: &Fields, newer: &str) -> Result<Option<usize>, Refusal> {
    let limit = sampling::limit(fields)?;
    match limit.filter(|limit| *limit > card.max_model_len) {
        None => Ok(limit),
        Some(limit) => {
            let name = if fields.max_completion_tokens.is_some() { newer } else { "max_tokens" };
            let max_model_len = card.max_model_len;
            let message = format!(
                "{name}={limit} cannot be greater than max_model_len={max_model_len}. Please request fewer output \
                 tokens."
            );
            Err(Refusal::parameter(name, message, Some(&limit)))
        }
    }
}

/// The most tokens that an answer to a prompt of this length may have.
fn answer_limit(
    card: &Card,
    length: usize,
    requested: Option<usize>,
    default: Option<usize>,
    part: Part,
) -> Result<usize, Refusal> {
    let max_model_len = card.max_model_len;
    let remaining = max_model_len.saturating_sub(length);
    if remaining == 0 {
        return Err(too_long(max_model_len));
    }
    // A prefill engine computes the prompt for its KV cache, and the engine that decodes generates its answer.
    Ok(if part == Part::Prefill { 1 } else { requested.or(default).unwrap_or(remaining).min(remaining) })
}

/// Refuses an answer that must be longer than it may be.
fn check_min_tokens(prompt: &Prompt, sampling: &Sampling, part: Part) -> Result<(), Refusal> {
    let (min_tokens, max_tokens) = (sampling.min_tokens, prompt.limit);
    // The engine that continues after a prefill has the limit of the whole answer.
    if min_tokens <= max_tokens || part == Part::Prefill {
        return Ok(());
    }
    let message =
        format!("min_tokens must be less than or equal to max_tokens={max_tokens}, got {min_tokens}.");
    Err(Refusal::bad_request(message))
}

fn output(fields: &Fields) -> Result<Output, Refusal> {
    let stream = fields.stream == Some(true);
    match &fields.stream_options {
        // vLLM takes an empty object for none.
        Some(options)
            if !stream && (options.include_usage.is_some() || options.continuous_usage_stats.is_some()) =>
        {
            let message = "Stream options can only be defined when `stream=True`.";
            Err(Refusal::parameter("stream_options", message, None))
        }
        Some(options) => {
            let include_usage = options.include_usage == Some(true);
            let continuous_usage = include_usage && options.continuous_usage_stats == Some(true);
            Ok(Output { stream, include_usage, continuous_usage })
        }
        None => Ok(Output { stream, ..Output::default() }),
    }
}

/// Refuses what changes answers and is no part of a [`Job`].
pub(crate) fn unsupported(fields: &Fields) -> Result<(), Refusal> {
    if fields.chat_template.is_some() {
        return Err(Refusal::bad_request(
            "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with \
             untrusted chat template.",
        ));
    }
    Refusal::check_unsupported([
        ("best_of", fields.best_of.is_some_and(|best_of| best_of != fields.n.unwrap_or(1))),
        ("use_beam_search", fields.use_beam_search == Some(true)),
        ("suffix", fields.suffix.as_ref().is_some_and(|suffix| !suffix.is_empty())),
        ("prompt_logprobs", fields.prompt_logprobs.is_some()),
        ("truncate_prompt_tokens", fields.truncate_prompt_tokens.is_some()),
        ("prompt_embeds", fields.prompt_embeds.is_some()),
        ("documents", fields.documents.as_ref().is_some_and(|list| !list.is_empty())),
        ("mm_processor_kwargs", fields.mm_processor_kwargs.is_some()),
        ("cache_salt", fields.cache_salt.is_some()),
        ("return_token_ids", fields.return_token_ids == Some(true)),
        ("return_prompt_text", fields.return_prompt_text == Some(true)),
        ("logprob_token_ids", fields.logprob_token_ids.is_some()),
        ("watermarking", fields.watermarking == Some(true)),
        ("return_tokens_as_token_ids", fields.return_tokens_as_token_ids == Some(true)),
        ("thinking_token_budget", fields.thinking_token_budget.is_some()),
        ("repetition_detection", fields.repetition_detection.is_some()),
        ("logits_processors", fields.logits_processors.as_ref().is_some_and(|list| !list.is_empty())),
        ("vllm_xargs", fields.vllm_xargs.as_ref().is_some_and(|map| !map.is_empty())),
        (
            "modalities",
            fields.modalities.as_ref().is_some_and(|list| list.iter().any(|modality| modality != "text")),
        ),
        ("functions", fields.functions.is_some()),
    ])
}
