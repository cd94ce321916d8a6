//! A `kube::Client` that talks to the server without a socket.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;

use crate::{
    answer::{self, Answer},
    request::{Request, User, accept::Accept, query::Query},
    router,
    server::ApiServer,
    state::State,
    status::ApiError,
};

/// The largest body that the server reads, in bytes. kube-apiserver has the same limit.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

// === impl ApiServer ===

impl ApiServer {
    /// A client of this process with all rights, whose namespace is `namespace`. Must be called in a tokio runtime.
    pub fn client(&self, namespace: &str) -> kube::Client {
        let state = Arc::clone(&self.state);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let state = Arc::clone(&state);
            async move { Ok::<_, Infallible>(serve(&state, request, User::administrator()).await) }
        });
        kube::Client::new(service, namespace)
    }
}

/// Reads a request's body, then answers the request.
pub(crate) async fn serve<B>(state: &Arc<State>, mut request: http::Request<B>, user: User) -> Answer
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let upgrade: Option<OnUpgrade> =
        request.headers().contains_key(http::header::UPGRADE).then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let accept = Accept::of(&parts.headers);
    let reading = http_body_util::Limited::new(body, BODY_LIMIT).collect();
    let body = match tokio::time::timeout(BODY_TIMEOUT, reading).await {
        Ok(Ok(collected)) => collected.to_bytes(),
        Err(_) => {
            let error = ApiError::new(408, "Timeout", "the body of the request did not arrive in time");
            return answer::refusal(&error, accept.refusal());
        }
        Ok(Err(error)) => {
            let refusal = if error.is::<http_body_util::LengthLimitError>() {
                too_large()
            } else {
                ApiError::bad_request(format!("the body of the request could not be read: {error}"))
            };
            return answer::refusal(&refusal, accept.refusal());
        }
    };
    let request = Request {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or_default()),
        raw_query: parts.uri.query().map(str::to_owned),
        accept,
        connection: parts.extensions.get().cloned(),
        headers: parts.headers,
        body,
        user,
        upgrade: upgrade.into(),
    };
    router::handle(state, request).await
}

/// The error for a body that is too large.
pub(crate) fn too_large() -> ApiError {
    ApiError::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {BODY_LIMIT}"))
}
