//! `POST /v1/embeddings`: vectors of texts, from embedding models.

use std::sync::Arc;

use axum::{Json, Router, extract::State, http::HeaderMap, routing::post};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Model, Refusal,
    body::{Body, object_only},
    clock::now,
    fields::PromptField,
    job::known_model,
    reply::request_id,
    vectors::normalise,
};

/// The most texts in one request, as in OpenAI's API.
const MAX_TEXTS: usize = 2048;

/// The fields of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(remote = "Self", expecting = "an object", default)]
struct Fields {
    model: Option<String>,
    input: Option<PromptField>,
    encoding_format: Option<String>,
    dimensions: Option<i64>,
    // The following fields would change the vectors. A request is refused unless they have a neutral value.
    messages: Option<Value>,
    truncate_prompt_tokens: Option<Value>,
    add_special_tokens: Option<bool>,
    normalize: Option<bool>,
    use_activation: Option<bool>,
    embed_dtype: Option<String>,
    endianness: Option<String>,
    request_id: Option<String>,
}

object_only!(Fields);

pub(crate) fn routes() -> Router<Arc<dyn Model>> {
    Router::new().route("/v1/embeddings", post(create))
}

async fn create(
    State(model): State<Arc<dyn Model>>,
    headers: HeaderMap,
    Body(fields): Body<Fields>,
) -> Result<Json<Value>, Refusal> {
    let name = known_model(&model, fields.model.as_deref())?;
    let Some(vectors) = model.vectors().cloned() else { return Err(Refusal::not_found("Not Found")) };
    Refusal::check_unsupported([
        ("messages", fields.messages.is_some()),
        ("truncate_prompt_tokens", fields.truncate_prompt_tokens.is_some()),
        ("add_special_tokens", fields.add_special_tokens == Some(false)),
        ("normalize", fields.normalize.is_some()),
        ("use_activation", fields.use_activation.is_some()),
        ("embed_dtype", fields.embed_dtype.as_deref().is_some_and(|kind| kind != "float32")),
        ("endianness", fields.endianness.as_deref().is_some_and(|order| order == "big")),
    ])?;
    let is_base64 = match fields.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => {
            return Err(Refusal::field("encoding_format", "encoding_format: expected `float` or `base64`."));
        }
    };
    let length = vectors.length(&name, fields.dimensions)?;
    let prompts = prompts(&model, fields.input)?;
    let count: usize = prompts.iter().map(Vec::len).sum();
    let found = model.embed(prompts).await?;
    let data = found.into_iter().enumerate().map(|(index, mut vector)| {
        if length < vector.len() {
            vector.truncate(length);
            if vectors.are_normalised {
                // A part of a vector of length 1 is shorter.
                normalise(&mut vector);
            }
        }
        let embedding: Value = if is_base64 {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            STANDARD.encode(bytes).into()
        } else {
            vector.into()
        };
        json!({"index": index, "object": "embedding", "embedding": embedding})
    });
    Ok(Json(json!({
        "id": format!("embd-{}", request_id(&headers, fields.request_id)), "object": "list", "created": now(), "model": name,
        "data": data.collect::<Vec<_>>(),
        "usage": {
            "prompt_tokens": count, "total_tokens": count, "completion_tokens": 0, "prompt_tokens_details": null,
        },
    })))
}

/// Returns the tokens of every text.
fn prompts(model: &Arc<dyn Model>, input: Option<PromptField>) -> Result<Vec<Vec<u32>>, Refusal> {
    let Some(input) = input else { return Err(Refusal::field("input", "input: Field required.")) };
    if input.count() > MAX_TEXTS {
        return Err(Refusal::field("input", format!("input: at most {MAX_TEXTS} are taken at once.")));
    }
    let prompts: Vec<_> = input.prompts(model.as_ref())?.into_iter().map(|(_, tokens)| tokens).collect();
    if prompts.is_empty() || prompts.iter().any(Vec::is_empty) {
        return Err(Refusal::field("input", "input must not be empty."));
    }
    let most = model.card().max_model_len;
    match prompts.iter().map(Vec::len).find(|length| *length > most) {
        None => Ok(prompts),
        Some(length) => Err(Refusal::field(
            "input",
            format!(
                "This model's maximum context length is {most} tokens. However, you requested {length} tokens in the \
                 input for embedding generation. Please reduce the length of the input."
            ),
        )),
    }
}
