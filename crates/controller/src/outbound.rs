//! What every request to the API server goes through.

use http::{Method, Request};
use kube::{Client, client::Body};

use crate::fence::Fence;

/// A client that sends writes only while the fence lets them through.
pub(crate) fn fenced(client: Client, fence: Fence) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, passed) = (client.clone(), pass(&fence, request.method()));
        async move {
            passed?;
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

fn pass(fence: &Fence, method: &Method) -> Result<(), kube::Error> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    fence.pass().map_err(|closed| kube::Error::Service(closed.into()))
}
