//! The client layer through which every request to the API server goes.

use std::{sync::Arc, time::Duration};

use http::{Request, Response, header::CONTENT_LENGTH};
use kube::{Client, client::Body};
use tokio::time::timeout;
use tracing::Instrument;

use crate::{
    fence::Fence,
    metrics::{ApiRequest, Metrics},
    spans,
};

/// The time limit for a whole response. It is longer than the time limit of API servers, which is a minute by default. After
/// it, the connection counts as dead.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(70);

/// The manager of the fields that the controller writes.
const SENDER: &str = "longboat-controller";

/// No response came in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server has not answered for {RESPONSE_TIMEOUT:?}")]
struct ResponseTimeout;

/// Wraps a client: names the controller as the sender, counts requests, limits their time, and sends writes only while the fence is open.
pub(crate) fn watched(client: Client, metrics: Metrics, host: Arc<str>, fence: Option<Fence>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = longboat_watch::named(client, SENDER);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, metrics, host, fence) = (client.clone(), metrics.clone(), host.clone(), fence.clone());
        async move {
            let api_request = ApiRequest::new(request.method(), request.uri());
            if let Some(fence) = fence.filter(|_| api_request.is_write()) {
                fence.check().map_err(|closed| kube::Error::Service(closed.into()))?;
            }
            // kube sends `watch=true`. The capital letter keeps `allowWatchBookmarks=` apart.
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            let span = spans::write(&api_request);
            // A watch has its own time limits, and may be silent for long.
            let answer = if is_watch {
                client.send(request).await
            } else {
                in_time(&client, request, api_request.is_write()).instrument(span.clone()).await
            };
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            spans::answered(&span, code);
            metrics.count_request(&api_request, &host, code);
            answer
        }
    });
    Client::new(service, namespace)
}

/// Reads the whole response within the time limit. Removes managed fields from responses to writes, because decoding them
/// takes longer than decoding the rest.
async fn in_time(
    client: &Client,
    request: Request<Body>,
    is_write: bool,
) -> Result<Response<Body>, kube::Error> {
    let exchange = async {
        let (mut head, body) = client.send(request).await?.into_parts();
        let body = body.collect_bytes().await?;
        let Some(object) = std::str::from_utf8(&body).ok().filter(|_| is_write) else {
            return Ok(Response::from_parts(head, Body::from(body)));
        };
        let object = longboat_watch::without_managed_fields(object).into_owned();
        // The body is shorter now.
        head.headers.remove(CONTENT_LENGTH);
        Ok(Response::from_parts(head, Body::from(object.into_bytes())))
    };
    timeout(RESPONSE_TIMEOUT, exchange)
        .await
        .unwrap_or_else(|_| Err(kube::Error::Service(ResponseTimeout.into())))
}
