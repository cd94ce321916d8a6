//! Requests in JSON.

use longboat_scheduler::Prompt;

use super::{
    api::Api,
    content::Dialect,
    fields::{Fields, PromptField},
    parsed::{BodyError, MAX_MODEL, ParsedBody, Reading},
    prompt_text::PromptBuffer,
};

/// Reads a body of this API.
pub(super) fn read(api: Api, body: &[u8], reading: &Reading) -> Result<ParsedBody, BodyError> {
    let fields = Fields::read(body).map_err(BodyError::Json)?;
    if fields.is_too_long() {
        return Err(BodyError::Elements);
    }
    let prompts = prompts(api, &fields, reading)?;
    let model = fields.model(body).filter(|(model, _)| !model.is_empty());
    let (model, model_at) = match api {
        // SGLang serves one model, which its own requests do not name.
        Api::SglangGenerate => Default::default(),
        _ => model.ok_or(BodyError::NoModel)?,
    };
    if model.len() > MAX_MODEL {
        return Err(BodyError::LongModel(model.len()));
    }
    let prompt = match api {
        Api::Completions => fields.prompt.as_ref(),
        Api::Generate => fields.token_ids.as_ref(),
        Api::SglangGenerate => fields.input_ids.as_ref(),
        _ => None,
    };
    let max_output_tokens = match api {
        Api::ChatCompletions => fields.max_completion_tokens.or(fields.max_tokens),
        Api::Completions | Api::Messages => fields.max_tokens,
        Api::Responses => fields.max_output_tokens,
        _ => None,
    };
    let cache_salt = if api == Api::SglangGenerate { &fields.extra_key } else { &fields.cache_salt };
    Ok(ParsedBody {
        model,
        model_at,
        priority_at: fields.priority_at(body),
        stream: fields.stream,
        exact: prompt.is_some_and(PromptField::is_tokens),
        prompts,
        cache_salt: cache_salt.as_deref().unwrap_or_default().to_owned(),
        multimodal: fields.messages.as_ref().is_some_and(|messages| messages.multimodal)
            || fields.input.as_ref().is_some_and(PromptField::is_multimodal),
        max_output_tokens: max_output_tokens.map(u64::from),
        media: Vec::new(),
    })
}

fn prompts(api: Api, fields: &Fields<'_>, reading: &Reading) -> Result<Vec<Prompt>, BodyError> {
    let each = |field: Option<&PromptField<'_>>, api, name| {
        field.and_then(|field| field.prompts(reading)).ok_or(BodyError::Field(api, name))
    };
    let messages = |api| {
        let messages = fields.messages.as_ref().filter(|messages| !messages.is_empty());
        messages.ok_or(BodyError::Field(api, "valid messages"))
    };
    let input = |api| {
        let input = fields.input.as_ref().filter(|input| input.is_given());
        input.ok_or(BodyError::Field(api, "input"))
    };
    let mut text = PromptBuffer::new(reading);
    let tools = |text: &mut PromptBuffer<'_>| {
        if let Some(tools) = fields.tools {
            text.push(tools.get().as_bytes());
        }
    };
    match api {
        Api::ChatCompletions => {
            let messages = messages("chat completions")?;
            tools(&mut text);
            messages.append_to(&mut text, Dialect::OpenAi);
        }
        Api::Completions => return each(fields.prompt.as_ref(), "completions", "prompt"),
        Api::Images => return each(fields.prompt.as_ref(), "images generations", "prompt"),
        Api::Embeddings => {
            let input = input("embeddings")?;
            if input.is_tokens() {
                return each(Some(input), "embeddings", "input");
            }
            // They are load, but nothing that a text model has cached: no prompt for one begins like this.
            text.push(b"{\"Raw\":");
            input.append_to(&mut text);
        }
        Api::Responses => {
            let input = input("responses")?;
            if let Some(instructions) = fields.instructions {
                text.push_words(instructions);
            }
            tools(&mut text);
            input.append_to(&mut text);
        }
        Api::Conversations => {
            if let Some(items) = &fields.items {
                items.append_to(&mut text);
            }
        }
        // Counting neither reads nor fills a prefix cache.
        Api::CountTokens => return messages("messages").map(|_| Vec::new()),
        Api::Messages => {
            let messages = messages("messages")?;
            tools(&mut text);
            if let Some(system) = &fields.system {
                system.append_system_to(&mut text);
            }
            messages.append_to(&mut text, Dialect::Anthropic);
        }
        Api::Generate => return each(fields.token_ids.as_ref(), "generate", "token_ids"),
        Api::SglangGenerate => {
            let tokens = fields.input_ids.as_ref().filter(|ids| ids.is_tokens());
            return each(tokens, "generate", "input_ids");
        }
        // Bodies of these are not JSON.
        Api::Opaque | Api::VllmGenerate | Api::VllmEmbed | Api::VertexChat | Api::VertexRaw => {
            return Ok(Vec::new());
        }
    }
    Ok(vec![text.into_prompt()])
}
