//! `ConversionReview` in, `ConversionReview` out.

use serde::Deserialize;
use serde_json::json;

/// A body that is no review.
#[derive(Debug, thiserror::Error)]
#[error("the body is no ConversionReview: {0}")]
pub(super) struct Malformed(#[from] serde_json::Error);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
}

/// Answers a review.
pub(super) fn review(body: &[u8]) -> Result<Vec<u8>, Malformed> {
    let review: Review = serde_json::from_slice(body)?;
    let reply = json!({
        "apiVersion": review.api_version,
        "kind": "ConversionReview",
        "response": {
            "uid": review.request.uid,
            "result": {"status": "Failure", "message": "only v1alpha2 is served: there is nothing to convert to"},
        },
    });
    Ok(reply.to_string().into_bytes())
}
