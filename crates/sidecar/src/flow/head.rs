//! The head of a request, from which the requests to engines are built.

use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};

use crate::{
    body::{ProxyBody, pieces},
    connectors::Part,
    headers,
};

/// The path of a request, and its headers as engines may see them.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
}

// === impl Head ===

impl Head {
    /// Builds a request for an engine.
    pub(super) fn request(&self, part: Part) -> Request<ProxyBody> {
        let mut request = Request::new(pieces(part.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        // The body differs from the client's.
        headers.remove(header::CONTENT_LENGTH);
        if let Some(rank) = part.rank {
            headers.insert(headers::ENGINE_RANK, HeaderValue::from(rank));
        }
        request
    }

    /// Like [`Self::request`], for a response that the sidecar reads: the engine must not compress it.
    pub(super) fn request_to_read(&self, part: Part) -> Request<ProxyBody> {
        let mut request = self.request(part);
        if let Some(accepted) = request.headers_mut().get_mut(header::ACCEPT_ENCODING) {
            *accepted = HeaderValue::from_static("identity");
        }
        request
    }
}
