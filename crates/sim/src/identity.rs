//! The headers that identify the replica, as in the reference's simulator.

use std::sync::Arc;

use axum::{
    http::{HeaderName, HeaderValue},
    response::Response,
};

/// The headers of every response.
#[derive(Clone)]
pub(crate) struct Identity(Arc<[(HeaderName, HeaderValue)]>);

// === impl Identity ===

impl Identity {
    pub(crate) fn from_env(port: u16) -> Self {
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

    pub(crate) fn mark(&self, mut response: Response) -> Response {
        response.headers_mut().extend(self.0.iter().cloned());
        response
    }
}
