//! The HTTP surface: OpenAI's API as vLLM serves it, and vLLM's own few paths.

mod chat;
mod completions;
mod error;
mod generation;
mod request;
mod sse;
mod transfer;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use self::{error::ApiError, request::Tokenize};
use crate::{args::VERSION, engine::Engine, text};

/// Long prompts and many-part messages are legitimate; anything past this is refused with 413.
const BODY_LIMIT: usize = 64 << 20;

pub(crate) fn router(engine: Arc<Engine>) -> Router {
    let identity = Identity::from_env(engine.args.port());
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(chat::create))
        .route("/v1/completions", post(completions::create))
        .route("/tokenize", post(tokenize))
        .route("/metrics", get(metrics))
        .route("/health", get(StatusCode::OK))
        .route("/ping", get(StatusCode::OK))
        .route("/version", get(Json(json!({"version": VERSION}))))
        .fallback(|| async { ApiError::not_found("Not Found".into()) })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::map_response(move |response| std::future::ready(identity.mark(response))))
        .with_state(engine)
}

/// Who answered: the headers by which the reference's simulator tells its replicas apart.
#[derive(Clone)]
struct Identity(Arc<[(HeaderName, HeaderValue)]>);

// === impl Identity ===

impl Identity {
    fn from_env(port: u16) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let pod = variable("POD_NAME").or_else(|| variable("HOSTNAME"));
        let headers = [
            ("x-inference-pod", pod),
            ("x-inference-namespace", variable("POD_NAMESPACE")),
            ("x-inference-port", Some(port.to_string())),
        ];
        let valid = |(name, value): (&'static str, Option<String>)| {
            Some((HeaderName::from_static(name), HeaderValue::from_str(&value?).ok()?))
        };
        Self(headers.into_iter().filter_map(valid).collect())
    }

    fn mark(&self, mut response: Response) -> Response {
        response.headers_mut().extend(self.0.iter().cloned());
        response
    }
}

async fn models(State(engine): State<Arc<Engine>>) -> Json<Value> {
    let args = &engine.args;
    let card = |id: &String, parent: Option<&String>| {
        json!({
            "id": id, "object": "model", "created": 0, "owned_by": "vllm", "root": args.model, "parent": parent,
            "max_model_len": args.max_model_len,
        })
    };
    let base = args.served_names.iter().map(|name| card(name, None));
    let adapters = args.lora_names.iter().map(|name| card(name, args.served_names.first()));
    Json(json!({"object": "list", "data": base.chain(adapters).collect::<Vec<_>>()}))
}

async fn tokenize(State(engine): State<Arc<Engine>>, request: Tokenize) -> Result<Json<Value>, ApiError> {
    let tokens = text::tokens(&request.text()?);
    Ok(Json(json!({"count": tokens.len(), "max_model_len": engine.args.max_model_len, "tokens": tokens})))
}

async fn metrics(State(engine): State<Arc<Engine>>) -> Response {
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], engine.page())
        .into_response()
}
