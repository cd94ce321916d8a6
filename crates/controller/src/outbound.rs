//! What every request to the API server goes through.

use std::sync::Arc;

use http::Request;
use kube::{Client, client::Body};

use crate::{
    fence::Fence,
    metrics::{Asked, Metrics},
};

/// A client whose requests are counted, and that sends writes only while the fence lets them through.
pub(crate) fn watched(client: Client, metrics: Metrics, host: Arc<str>, fence: Option<Fence>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, metrics, host, fence) = (client.clone(), metrics.clone(), host.clone(), fence.clone());
        async move {
            let asked = Asked::new(request.method(), request.uri());
            if let Some(fence) = fence.filter(|_| asked.is_write()) {
                fence.pass().map_err(|closed| kube::Error::Service(closed.into()))?;
            }
            let answer = client.send(request).await;
            metrics.asked(&asked, &host, answer.as_ref().ok().map(|answer| answer.status().as_u16()));
            answer
        }
    });
    Client::new(service, namespace)
}
