//! Reads the parts of a request body that the picker needs, in one pass and without building a document.
//!
//! Strings without escapes are borrowed from the body, and unneeded fields are skipped. The body itself is sent on unchanged.

use std::ops::Range;

use longboat_scheduler::{Media, Prompt, config::Parser};

mod fields;
mod grpc;
mod media;
mod prompt_text;
mod protobuf;
mod scalars;

use fields::{Fields, MessageList, PromptField};
pub(crate) use grpc::usage as grpc_usage;
pub(crate) use media::{media, rendered};
use prompt_text::PromptBuffer;
pub(crate) use protobuf::{HEADER, ProtobufError, length};

/// The API that a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    ChatCompletions,
    Completions,
    Embeddings,
    Responses,
    Conversations,
    Images,
    Messages,
    CountTokens,
    Generate,
    SglangGenerate,
    VllmGenerate,
    VllmEmbed,
    VertexChat,
    VertexRaw,
    /// Any other path. The picker does not read the body.
    Opaque,
}

/// Path suffixes, each with the parser that it belongs to. They are tried in this order, and the first match wins.
const PATHS: &[(&str, Parser, Api)] = &[
    ("chat/completions", Parser::OpenAi, Api::ChatCompletions),
    ("completions", Parser::OpenAi, Api::Completions),
    ("embeddings", Parser::OpenAi, Api::Embeddings),
    ("responses", Parser::OpenAi, Api::Responses),
    ("conversations", Parser::OpenAi, Api::Conversations),
    ("images/generations", Parser::OpenAi, Api::Images),
    ("chat/completions/render", Parser::OpenAi, Api::ChatCompletions),
    ("completions/render", Parser::OpenAi, Api::Completions),
    ("messages/count_tokens", Parser::Anthropic, Api::CountTokens),
    ("messages", Parser::Anthropic, Api::Messages),
    ("inference/v1/generate", Parser::VllmHttp, Api::Generate),
    ("/generate", Parser::SglangHttp, Api::SglangGenerate),
    ("vllm.grpc.engine.VllmEngine/Generate", Parser::VllmGrpc, Api::VllmGenerate),
    ("vllm.grpc.engine.VllmEngine/Embed", Parser::VllmGrpc, Api::VllmEmbed),
    ("PredictionService/ChatCompletions", Parser::VertexAi, Api::VertexChat),
    ("PredictionService/StreamRawPredict", Parser::VertexAi, Api::VertexRaw),
    ("PredictionService/RawPredict", Parser::VertexAi, Api::VertexRaw),
];

impl Api {
    /// Finds the API by the path's suffix, among the APIs of the configured parsers. The query is ignored.
    pub(crate) fn of(path: &str, parsers: &[Parser]) -> Option<Self> {
        let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
        let known = PATHS
            .iter()
            .find(|(suffix, parser, _)| parsers.contains(parser) && path.ends_with(suffix))
            .map(|&(_, _, api)| api);
        known.or_else(|| parsers.contains(&Parser::Passthrough).then_some(Self::Opaque))
    }

    /// The parser that the API belongs to.
    pub(crate) fn parser(self) -> Parser {
        PATHS.iter().find(|(.., api)| *api == self).map_or(Parser::Passthrough, |(_, parser, _)| *parser)
    }

    /// Whether bodies of this API are framed protobuf messages.
    pub(crate) fn is_grpc(self) -> bool {
        matches!(self, Self::VllmGenerate | Self::VllmEmbed | Self::VertexChat | Self::VertexRaw)
    }
}

/// The longest name of a model. The limit exists because metrics and decisions keep names longer than the request.
const MAX_MODEL: usize = 4096;

/// The most messages, prompts and parts of a message. Each needs far more memory than its bytes in the body.
const MAX_ELEMENTS: usize = 1 << 16;

/// The result of reading a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ParsedBody {
    /// The requested model. Empty if bodies are not read.
    pub(crate) model: String,
    /// The range of the model's JSON value in the body.
    pub(crate) model_at: Range<usize>,
    /// The range of the priority's JSON value in the body. `None` if the body has none.
    pub(crate) priority_at: Option<Range<usize>>,
    /// Whether the client asks for a streamed response.
    pub(crate) stream: bool,
    /// The prompts, for prefix hashing.
    pub(crate) prompts: Vec<Prompt>,
    /// Whether the prompts are the model's own tokens. Otherwise they are text.
    pub(crate) exact: bool,
    pub(crate) cache_salt: String,
    pub(crate) multimodal: bool,
    /// The request's images, audio and videos. Empty if no plugin uses them.
    pub(crate) media: Vec<Media>,
}

/// Why a body is refused. Clients see the messages, so they have the words of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("error unmarshaling request bodyMap: {0}")]
    Json(String),
    #[error("invalid {0} request: must have {1} field")]
    Field(&'static str, &'static str),
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    #[error("{0}")]
    Grpc(&'static str),
    #[error("model not found in request body")]
    NoModel,
    #[error("the name of the model has {0} bytes; expected at most {MAX_MODEL}")]
    LongModel(usize),
    #[error("a list has more than {MAX_ELEMENTS} messages, prompts or parts")]
    Elements,
}

/// Reads a body of this API. Of each text, at most `limit` bytes are kept.
pub(crate) fn parse(api: Api, body: &[u8], limit: usize) -> Result<ParsedBody, BodyError> {
    if api == Api::Opaque {
        return Ok(ParsedBody::default());
    }
    if api.is_grpc() {
        return grpc::read(api, body, limit);
    }
    let fields = Fields::read(body).map_err(BodyError::Json)?;
    if fields.is_too_long() {
        return Err(BodyError::Elements);
    }
    let prompts = prompts(api, &fields, limit)?;
    let model = fields.model(body).filter(|(model, _)| !model.is_empty());
    let (model, model_at) = match api {
        // SGLang serves one model, which its own requests do not name.
        Api::SglangGenerate => Default::default(),
        _ => model.ok_or(BodyError::NoModel)?,
    };
    if model.len() > MAX_MODEL {
        return Err(BodyError::LongModel(model.len()));
    }
    let given = match api {
        Api::Completions => fields.prompt.as_ref(),
        Api::Generate => fields.token_ids.as_ref(),
        Api::SglangGenerate => fields.input_ids.as_ref(),
        _ => None,
    };
    let cache_salt = if api == Api::SglangGenerate { &fields.extra_key } else { &fields.cache_salt };
    Ok(ParsedBody {
        model,
        model_at,
        priority_at: fields.priority_at(body),
        stream: fields.stream,
        exact: given.is_some_and(PromptField::is_tokens),
        prompts,
        cache_salt: cache_salt.as_deref().unwrap_or_default().to_owned(),
        multimodal: fields.messages.as_ref().is_some_and(|messages| messages.multimodal),
        media: Vec::new(),
    })
}

fn prompts(api: Api, fields: &Fields<'_>, limit: usize) -> Result<Vec<Prompt>, BodyError> {
    match api {
        Api::ChatCompletions => {
            let messages = messages(fields).ok_or(BodyError::Field("chat completions", "valid messages"))?;
            let mut text = PromptBuffer::new(limit);
            if let Some(tools) = fields.tools {
                text.push(tools.get().as_bytes());
            }
            messages.append_to(&mut text);
            Ok(vec![text.into_prompt()])
        }
        Api::Completions => fields
            .prompt
            .as_ref()
            .and_then(|prompt| prompt.prompts(limit))
            .ok_or(BodyError::Field("completions", "prompt")),
        Api::Images => fields
            .prompt
            .as_ref()
            .and_then(|prompt| prompt.prompts(limit))
            .ok_or(BodyError::Field("images generations", "prompt")),
        // Embeddings leave nothing in a prefix cache for other requests.
        Api::Embeddings => fields
            .input
            .as_ref()
            .filter(|input| input.is_given())
            .map(|_| Vec::new())
            .ok_or(BodyError::Field("embeddings", "input")),
        Api::Responses => {
            let input = fields
                .input
                .as_ref()
                .filter(|input| input.is_given())
                .ok_or(BodyError::Field("responses", "input"))?;
            let mut text = PromptBuffer::new(limit);
            if let Some(instructions) = fields.instructions {
                text.push_words(instructions);
            }
            if let Some(tools) = fields.tools {
                text.push(tools.get().as_bytes());
            }
            input.append_to(&mut text);
            Ok(vec![text.into_prompt()])
        }
        Api::Conversations => {
            let mut text = PromptBuffer::new(limit);
            if let Some(items) = &fields.items {
                items.append_to(&mut text);
            }
            Ok(vec![text.into_prompt()])
        }
        // Counting neither reads nor fills a prefix cache.
        Api::CountTokens => {
            messages(fields).map(|_| Vec::new()).ok_or(BodyError::Field("messages", "valid messages"))
        }
        Api::Messages => {
            let messages = messages(fields).ok_or(BodyError::Field("messages", "valid messages"))?;
            let mut text = PromptBuffer::new(limit);
            if let Some(tools) = fields.tools {
                text.push(tools.get().as_bytes());
            }
            if let Some(system) = &fields.system {
                system.append_to(&mut text);
            }
            messages.append_to(&mut text);
            Ok(vec![text.into_prompt()])
        }
        Api::Generate => fields
            .token_ids
            .as_ref()
            .and_then(|prompt| prompt.prompts(limit))
            .ok_or(BodyError::Field("generate", "token_ids")),
        Api::SglangGenerate => fields
            .input_ids
            .as_ref()
            .filter(|prompt| prompt.is_tokens())
            .and_then(|prompt| prompt.prompts(limit))
            .ok_or(BodyError::Field("generate", "input_ids")),
        // `parse` returns earlier for bodies that are not JSON.
        Api::Opaque | Api::VllmGenerate | Api::VllmEmbed | Api::VertexChat | Api::VertexRaw => Ok(Vec::new()),
    }
}

fn messages<'f, 'a>(fields: &'f Fields<'a>) -> Option<&'f MessageList<'a>> {
    fields.messages.as_ref().filter(|messages| !messages.is_empty())
}

#[cfg(test)]
mod tests;
