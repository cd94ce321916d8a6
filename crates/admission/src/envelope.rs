//! What all reviews have around their requests.

use serde::Deserialize;

/// A body that is not a review. The HTTP response is 400 with this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedReview(pub(crate) String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<R> {
    api_version: Option<String>,
    kind: Option<String>,
    request: Option<R>,
}

/// Reads a review of `expected` in version `v1` or `v1beta1` of the group. Returns its apiVersion, kind and request.
pub(crate) fn read<'a, R: Deserialize<'a>>(
    body: &'a [u8],
    group: &str,
    expected: &str,
) -> Result<(String, String, R), MalformedReview> {
    let a = if expected.starts_with('A') { "an" } else { "a" };
    let review: Review<R> = serde_json::from_slice(body)
        .map_err(|error| MalformedReview(format!("the body is not {a} {expected}: {error}")))?;
    let (api_version, kind) = (review.api_version.unwrap_or_default(), review.kind.unwrap_or_default());
    let known = api_version
        .split_once('/')
        .is_some_and(|(of, version)| of == group && matches!(version, "v1" | "v1beta1"));
    if kind != expected || !known {
        return Err(MalformedReview(format!(
            "expected {a} {expected} of {group}/v1 or {group}/v1beta1, got kind {kind:?} of apiVersion {api_version:?}"
        )));
    }
    let missing = || MalformedReview(format!("the {expected} has no request"));
    Ok((api_version, kind, review.request.ok_or_else(missing)?))
}
