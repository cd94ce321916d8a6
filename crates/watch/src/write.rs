//! Writes of objects of any kind. Their responses are not decoded: a watch reports the result.

use kube::{Api, api::PostParams, core::Request};
use serde::Serialize;

use crate::ReceivedObject;

/// Creates an object.
///
/// # Errors
/// If the request fails.
pub async fn create(api: &Api<ReceivedObject>, object: &impl Serialize) -> Result<(), kube::Error> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    send(api, Request::new(api.resource_url()).create(&PostParams::default(), body)).await
}

/// Replaces an object.
///
/// # Errors
/// If the request fails.
pub async fn replace(
    api: &Api<ReceivedObject>,
    name: &str,
    object: &impl Serialize,
) -> Result<(), kube::Error> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    send(api, Request::new(api.resource_url()).replace(name, &PostParams::default(), body)).await
}

async fn send(
    api: &Api<ReceivedObject>,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<(), kube::Error> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    api.clone().into_client().request_text(request).await.map(drop)
}
