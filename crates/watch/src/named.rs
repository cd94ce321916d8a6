//! Requests that say who sends them.

use http::{HeaderValue, Request, header::USER_AGENT};
use kube::{Client, client::Body};

/// Returns a client whose requests carry the name of their sender, unless they have one already. API servers record the name as the
/// manager of the fields that a request writes, and in their audit log.
pub fn named(client: Client, name: &'static str) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let client = client.clone();
        async move {
            request.headers_mut().entry(USER_AGENT).or_insert(HeaderValue::from_static(name));
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}
