//! The playground: sends a request to a service, and streams its response.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderName, StatusCode, header};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use crate::{Address, answer::Problem, reach::local_client};

/// The id of the request, under which the picker records its decision.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Sends a chat to the service's address, and streams the response.
pub(crate) async fn send(
    http: &reqwest::Client,
    address: &Address,
    body: &Bytes,
    permit: OwnedSemaphorePermit,
) -> Result<Response, Problem> {
    let chat = prepared(body, &address.model)?;
    let url = &address.url;
    let own;
    let http = match &address.resolve {
        None => http,
        // A client's table of names is fixed, so this address needs a client of its own.
        Some(resolved) => {
            let built = local_client(Some(resolved.clone())).build();
            own = built.map_err(|error| Problem::failed(error.to_string()))?;
            &own
        }
    };
    let mut request = http.post(url).header(header::CONTENT_TYPE, "application/json").body(chat);
    for (name, value) in &address.headers {
        request = request.header(name, value);
    }
    let answer = request.send().await.map_err(|error| {
        Problem::failed(format!("{url} does not answer: {}", longboat_tls::innermost(&error)))
    })?;
    let id = answer.headers().get(&REQUEST_ID).cloned();
    let kind = answer.headers().get(header::CONTENT_TYPE).cloned();
    let status = answer.status();
    // A 401 from the service must not look like a 401 from this server.
    if status == StatusCode::UNAUTHORIZED {
        return Err(Problem::failed(format!(
            "{url} answers 401, because the service asks for an API key. The playground sends the key of the engine (`--api-key`, \
             VLLM_API_KEY) if you may read it, and no key of the gateway: send such a request with another client"
        )));
    }
    let chunks = answer.bytes_stream().map(move |chunk| {
        // The permit belongs to the stream, and goes with it when the browser leaves.
        let _running = &permit;
        chunk
    });
    let mut response = (status, Body::from_stream(chunks)).into_response();
    for (name, value) in [(REQUEST_ID, id), (header::CONTENT_TYPE, kind)] {
        if let Some(value) = value {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}

/// Returns the request for the service: with a model name, and streamed.
pub(crate) fn prepared(body: &[u8], model: &str) -> Result<String, Problem> {
    let mut chat: Value = serde_json::from_slice(body).map_err(|error| Problem::wrong(error.to_string()))?;
    let Some(fields) = chat.as_object_mut() else {
        return Err(Problem::wrong("expected a JSON object, as in the OpenAI API"));
    };
    fields.entry("model").or_insert_with(|| Value::from(model));
    fields.insert("stream".into(), true.into());
    Ok(chat.to_string())
}
