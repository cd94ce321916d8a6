//! Requests over gRPC: vLLM's own service, and Vertex AI's, whose messages wrap the JSON of OpenAI's API.

use longboat_scheduler::{Prompt, Usage};

use super::{
    api::Api,
    json,
    parsed::{BodyError, ParsedBody, Reading},
    protobuf::{Fields, ProtobufError, Value, append_numbers, message},
};

/// Reads a body of a gRPC API. A body without a model gives an empty model name: the server has only one model.
pub(super) fn read(api: Api, body: &[u8], reading: &Reading) -> Result<ParsedBody, BodyError> {
    let message = message(body)?;
    match api {
        Api::VllmEmbed => embed(message),
        Api::VertexChat => wrapped(message, Api::ChatCompletions, reading),
        Api::VertexRaw => wrapped(message, Api::Responses, reading),
        _ => generate(message),
    }
}

/// `GenerateRequest`. Its prompt is text or tokens; if both are there, the last one counts.
fn generate(message: &[u8]) -> Result<ParsedBody, BodyError> {
    let mut parsed = ParsedBody::default();
    let mut prompt = None;
    for field in Fields::of(message) {
        match field? {
            (2, value) => prompt = Some((tokens(value)?, true)),
            (3, value) => prompt = Some((value.text()?.as_bytes().to_vec(), false)),
            (5, value) => parsed.stream = value.number() != 0,
            // The request has placeholders where the prompt contains images.
            (7, value) => parsed.multimodal = has_placeholders(value)?,
            _ => {}
        }
    }
    let (prompt, exact) = prompt.ok_or(BodyError::Grpc("not supported request inputType"))?;
    parsed.prompts = vec![Prompt::from(prompt)];
    parsed.exact = exact;
    Ok(parsed)
}

/// `EmbedRequest`. Embeddings leave nothing in a prefix cache for other requests, so this returns no prompts.
fn embed(message: &[u8]) -> Result<ParsedBody, BodyError> {
    let mut found = false;
    for field in Fields::of(message) {
        if let (2, value) = field? {
            tokens(value)?;
            found = true;
        }
    }
    if found {
        Ok(ParsedBody::default())
    } else {
        Err(BodyError::Grpc("missing tokenized input in EmbedRequest"))
    }
}

/// Reads a `TokenizedInput` as the little-endian bytes of its tokens.
fn tokens(value: Value<'_>) -> Result<Vec<u8>, ProtobufError> {
    let mut tokens = Vec::new();
    for field in Fields::of(value.bytes()) {
        if let (2, value) = field? {
            append_numbers(value, &mut tokens)?;
        }
    }
    Ok(tokens)
}

fn has_placeholders(value: Value<'_>) -> Result<bool, ProtobufError> {
    let mut found = false;
    for field in Fields::of(value.bytes()) {
        found |= field?.0 == 5;
    }
    Ok(found)
}

/// Reads a message with an `HttpBody`, whose data is a JSON request.
fn wrapped(message: &[u8], api: Api, reading: &Reading) -> Result<ParsedBody, BodyError> {
    let mut data = None;
    for field in Fields::of(message) {
        if let (2, value) = field? {
            for field in Fields::of(value.bytes()) {
                if let (2, value) = field? {
                    data = Some(value.bytes());
                }
            }
        }
    }
    let data = data.ok_or(BodyError::Grpc("the message has no HttpBody"))?;
    match json::read(api, data, reading) {
        // The model's name serves metrics only. The message is sent on unchanged, so the name has no place to be replaced at.
        Ok(parsed) => Ok(ParsedBody { model_at: 0..0, ..parsed }),
        Err(BodyError::NoModel) => Ok(ParsedBody::default()),
        Err(error) => Err(error),
    }
}

/// Returns the usage in a `GenerateResponse` or an `EmbedResponse`. Returns `None` if the message has none.
pub(crate) fn usage(api: Api, message: &[u8]) -> Option<Usage> {
    if api == Api::VllmEmbed {
        let input = number(message, 2)?;
        return Some(Usage { input, ..Usage::default() }).filter(|usage| usage.input > 0);
    }
    let mut found = None;
    for field in Fields::of(message) {
        let (number_of, value) = field.ok()?;
        // Field 1 is a piece of a stream. Field 2 is the whole response, which has the finish reason before the counts.
        let first = match number_of {
            1 => 2,
            2 => 3,
            _ => continue,
        };
        let [input, output, cached] =
            [first, first + 1, first + 2].map(|field| number(value.bytes(), field).unwrap_or_default());
        if input > 0 || output > 0 {
            found = Some(Usage { input, output, cached });
        }
    }
    found
}

fn number(message: &[u8], wanted: u32) -> Option<u64> {
    let mut found = None;
    for field in Fields::of(message) {
        let (number, value) = field.ok()?;
        if number == wanted {
            found = Some(value.number());
        }
    }
    found
}
