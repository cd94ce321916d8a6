//! The APIs that the picker knows, and their paths.

use longboat_scheduler::config::Parser;

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
