//! `POST /v1/responses`: OpenAI's newer API. Nothing is stored, so a response cannot be read again, and a request cannot
//! continue it by its id.

mod form;
mod input;
mod request;
mod writer;

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};

use self::{form::Form, request::Fields, writer::Writer};
use crate::{
    Job, Model, Refusal,
    answers::{Usage, collect},
    body::{self, Body},
    reply::request_id,
    sse,
};

pub(crate) async fn create(
    State(model): State<Arc<dyn Model>>,
    headers: HeaderMap,
    Body(mut fields): Body<Fields>,
) -> Result<Response, Refusal> {
    let job = request::read(&model, &mut fields)?;
    let prompt = job.prompts.iter().map(|prompt| prompt.tokens.len()).sum();
    let id = fields.request_id.take().unwrap_or_else(|| format!("resp_{}", request_id(&headers, None)));
    let form = Form::new(&id, &job, &fields);
    let streams = fields.stream == Some(true);
    drop(fields);
    let started = model.start(job).await?;
    let usage = Usage { prompt, completion: 0, cached: started.cached_tokens };
    if streams {
        let mut writer = Writer::new(form, usage);
        let opening = writer.opening();
        let events = started.events.flat_map(move |event| stream::iter(writer.events(event)));
        return Ok((started.headers, sse::named(stream::iter(opening).chain(events))).into_response());
    }
    let (answers, usage) = collect(started.events, usage, 1).await;
    let body = form.whole(&answers.into_iter().next().unwrap_or_default(), usage);
    Ok((started.headers, Json(body)).into_response())
}

/// Refuses to return an earlier response.
pub(crate) async fn unknown(Path(id): Path<String>) -> Refusal {
    request::not_stored(&id)
}

/// Returns the job for a body.
pub(crate) fn job_of(model: &Arc<dyn Model>, body: &[u8]) -> Result<Job, Refusal> {
    request::read(model, &mut body::decode::<Fields>(body)?)
}
