//! Requests over gRPC: vLLM's own service, and Vertex AI's, whose messages wrap the JSON of OpenAI's API.

use longboat_scheduler::Prompt;

use super::{
    Api, BodyError, Parsed, parse,
    protobuf::{Fields, ProtobufError, Value, append_numbers, message},
};
use crate::metrics::Usage;

/// Reads a body of this API, which is one over gRPC. Without a model in it, the model is empty: the server has one.
pub(super) fn read(api: Api, body: &[u8], limit: usize) -> Result<Parsed, BodyError> {
    let message = message(body)?;
    match api {
        Api::VllmEmbed => embed(message),
        Api::VertexChat => wrapped(message, Api::ChatCompletions, limit),
        Api::VertexRaw => wrapped(message, Api::Responses, limit),
        _ => generate(message),
    }
}

/// `GenerateRequest`: its prompt is text or tokens, whichever comes last.
fn generate(message: &[u8]) -> Result<Parsed, BodyError> {
    let mut parsed = Parsed::default();
    let mut prompt = None;
    for field in Fields::of(message) {
        match field? {
            (2, value) => prompt = Some((tokens(value)?, true)),
            (3, value) => prompt = Some((value.text()?.as_bytes().to_vec(), false)),
            (5, value) => parsed.stream = value.number() != 0,
            // Placeholders stand where images are.
            (7, value) => parsed.multimodal = has_placeholders(value)?,
            _ => {}
        }
    }
    let (prompt, exact) = prompt.ok_or(BodyError::Grpc("not supported request inputType"))?;
    parsed.prompts = vec![Prompt::from(prompt)];
    parsed.exact = exact;
    Ok(parsed)
}

/// `EmbedRequest`. Nothing of an embedding stays in a prefix cache that another request could use.
fn embed(message: &[u8]) -> Result<Parsed, BodyError> {
    let mut found = false;
    for field in Fields::of(message) {
        if let (2, value) = field? {
            tokens(value)?;
            found = true;
        }
    }
    if found {
        Ok(Parsed::default())
    } else {
        Err(BodyError::Grpc("missing tokenized input in EmbedRequest"))
    }
}

/// `TokenizedInput`: little-endian bytes of its tokens.
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

/// A message with an `HttpBody`, whose data is the JSON of a request.
fn wrapped(message: &[u8], api: Api, limit: usize) -> Result<Parsed, BodyError> {
    let mut json = None;
    for field in Fields::of(message) {
        if let (2, value) = field? {
            for field in Fields::of(value.bytes()) {
                if let (2, value) = field? {
                    json = Some(value.bytes());
                }
            }
        }
    }
    let json = json.ok_or(BodyError::Grpc("the message has no HttpBody"))?;
    match parse(api, json, limit) {
        // The name is for metrics; the message is sent on as it is.
        Ok(parsed) => Ok(Parsed { model_at: 0..0, ..parsed }),
        Err(BodyError::NoModel) => Ok(Parsed::default()),
        Err(error) => Err(error),
    }
}

/// The usage in a message of a response, if it has one: of `GenerateResponse` or `EmbedResponse`.
pub(crate) fn usage(api: Api, message: &[u8]) -> Option<Usage> {
    if api == Api::VllmEmbed {
        let input = number(message, 2)?;
        return Some(Usage { input, ..Usage::default() }).filter(|usage| usage.input > 0);
    }
    let mut found = None;
    for field in Fields::of(message) {
        let (number_of, value) = field.ok()?;
        // A piece of a stream, or the whole; the latter has a reason first.
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
