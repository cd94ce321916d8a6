//! The routes.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use longboat_metrics::OPENMETRICS;
use serde_json::{Value, json};

use crate::{
    ENGINE_VERSION, Job, Model, Refusal, adapters,
    body::{self, Body},
    chat, completions, embeddings,
    fields::{Fields, Tokenize},
    ids::unique,
    job,
    layout::LayoutOptions,
    messages::Reader,
    prompt, responses, tools,
};

/// The largest request body; a larger one gets 413. Long prompts and messages with many parts are legitimate.
const BODY_LIMIT: usize = 64 << 20;

/// Returns the routes of OpenAI's API for a model.
pub fn router(model: Arc<dyn Model>) -> Router {
    // As in vLLM, the routes depend on the purpose of the model.
    let router =
        if model.vectors().is_some() { embeddings::routes() } else { answering(model.allows_lora_updates()) };
    router
        .route("/v1/models", get(models))
        .route("/tokenize", post(tokenize))
        .route("/metrics", get(metrics))
        .route("/health", get(StatusCode::OK))
        // SageMaker probes this path.
        .route("/ping", get(StatusCode::OK).post(StatusCode::OK))
        .route("/version", get(async || Json(json!({"version": ENGINE_VERSION}))))
        .fallback(|| async { Refusal::not_found("Not Found") })
        .method_not_allowed_fallback(|| async { Refusal::method_not_allowed() })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn(log_refusal))
        .with_state(model)
}

/// Writes a line about a refused request, so that its id can be followed up to here.
async fn log_refusal(request: Request, next: Next) -> Response {
    let id = request.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let response = next.run(request).await;
    let status = response.status();
    if let Some(id) = id.filter(|_| status.is_client_error() || status.is_server_error()) {
        tracing::debug!(request_id = id, %status, "Refused a request.");
    }
    response
}

/// Returns the routes of a model that answers prompts.
fn answering(allows_lora_updates: bool) -> Router<Arc<dyn Model>> {
    let router = if allows_lora_updates { adapters::routes() } else { Router::new() };
    router
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/completions", post(completions::create))
        .route("/v1/chat/completions/render", post(render_chat))
        .route("/v1/completions/render", post(render_completion))
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/{id}", get(responses::unknown))
        .route("/v1/responses/{id}/cancel", post(responses::unknown))
}

/// Returns the job for a body that is sent to the route with this path. For tests with outside bodies.
pub fn job_of(model: &Arc<dyn Model>, path: &str, body: &[u8]) -> Result<Job, Refusal> {
    match path {
        "/v1/chat/completions" => Ok(job::chat(model, &body::decode::<Fields>(body)?)?.job),
        "/v1/completions" => Ok(job::completion(model, &body::decode::<Fields>(body)?)?.job),
        "/v1/responses" => responses::job_of(model, body),
        _ => Err(Refusal::not_found("Not Found")),
    }
}

async fn models(State(model): State<Arc<dyn Model>>) -> Json<Value> {
    let card = model.card();
    let entry = |id: &str, root: &str, parent: Option<&String>| {
        let permission = json!({
            "id": format!("modelperm-{}", unique()), "object": "model_permission", "created": card.created,
            "allow_create_engine": false, "allow_sampling": true, "allow_logprobs": true,
            "allow_search_indices": false, "allow_view": true, "allow_fine_tuning": false, "organization": "*",
            "group": null, "is_blocking": false,
        });
        json!({
            "id": id, "object": "model", "created": card.created, "owned_by": card.owner, "root": root,
            // Of adapters, vLLM does not say it.
            "parent": parent, "max_model_len": parent.is_none().then_some(card.max_model_len),
            "permission": [permission],
        })
    };
    let base = card.names.iter().map(|name| entry(name, &card.root, None));
    let adapters = model.adapters();
    let adapters = adapters.iter().map(|adapter| {
        let base = adapter.base.as_ref().filter(|base| card.names.contains(base));
        entry(&adapter.name, &adapter.path, base.or(card.names.first()))
    });
    Json(json!({"object": "list", "data": base.chain(adapters).collect::<Vec<_>>()}))
}

async fn tokenize(
    State(model): State<Arc<dyn Model>>,
    Body(request): Body<Tokenize>,
) -> Result<Json<Value>, Refusal> {
    // Texts get what begins each text, conversations what their template writes.
    let is_default = request.add_special_tokens.is_none_or(|adds| adds == request.prompt.is_some());
    Refusal::check_unsupported([
        ("add_special_tokens", !is_default),
        ("return_token_strs", request.return_token_strs == Some(true)),
        ("chat_template", request.chat_template.is_some()),
        ("mm_processor_kwargs", request.mm_processor_kwargs.is_some()),
    ])?;
    let tokens = match &request.prompt {
        Some(prompt) => {
            job::check_length(model.as_ref(), prompt)?;
            model.tokens(prompt)
        }
        None if request.messages.is_none() => {
            return Err(Refusal::invalid("prompt", "either prompt or messages must be given."));
        }
        None => {
            let name = job::known_model(&model, None)?;
            let mut reader = Reader::new(&name, model.media());
            let messages = reader.read(request.messages.as_deref().unwrap_or_default())?;
            let known_tools = tools::list(request.tools.as_deref().unwrap_or_default(), ".function")?;
            let options = LayoutOptions {
                add_generation_prompt: request.add_generation_prompt,
                continue_final_message: request.continue_final_message,
                variables: request.chat_template_kwargs.as_ref(),
                reasoning_effort: None,
            };
            let text = prompt::render(model.as_ref(), &messages, &known_tools, &options)?;
            job::check_length(model.as_ref(), &text)?;
            prompt::tokens(model.as_ref(), &text, &reader.items())
        }
    };
    let max_model_len = model.card().max_model_len;
    Ok(Json(
        json!({"count": tokens.len(), "max_model_len": max_model_len, "tokens": tokens, "token_strs": null}),
    ))
}

/// Returns the tokens of a conversation, for routers that need them. Ignores the model name: a tokenizer may know its model
/// by the folder from which it was loaded, and in local mode this folder differs for each pod.
async fn render_chat(
    State(model): State<Arc<dyn Model>>,
    Body(mut fields): Body<Fields>,
) -> Result<Json<Value>, Refusal> {
    fields.model = None;
    let request = job::chat(&model, &fields)?;
    Ok(Json(rendered(&request).into_iter().next().unwrap_or_default()))
}

/// Returns the tokens of each prompt.
async fn render_completion(
    State(model): State<Arc<dyn Model>>,
    Body(mut fields): Body<Fields>,
) -> Result<Json<Value>, Refusal> {
    fields.model = None;
    Ok(Json(rendered(&job::completion(&model, &fields)?).into()))
}

fn rendered(request: &job::ParsedRequest) -> Vec<Value> {
    let model = &request.job.model;
    request.job.prompts.iter().map(|prompt| json!({"model": model, "token_ids": prompt.tokens})).collect()
}

async fn metrics(State(model): State<Arc<dyn Model>>) -> Response {
    ([(header::CONTENT_TYPE, OPENMETRICS)], model.metrics()).into_response()
}
