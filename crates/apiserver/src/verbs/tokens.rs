//! `POST …/serviceaccounts/<name>/token`.

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

use super::Call;
use crate::{answer::Answer, clock, request::decode, respond, status::ApiError};

/// The shortest and the longest lifetime of a token, in seconds.
const LIFE: std::ops::RangeInclusive<i64> = 600..=86_400;

/// Answers with the account's token, which has the rights that RBAC gives the account. The token is valid until the server
/// ends; the answer has an expiry time because clients expect one.
pub(crate) fn request(call: &Call<'_>) -> Result<Answer, ApiError> {
    if call.state.store.get(&call.resource.table, &call.key()).is_none() {
        return Err(call.not_found());
    }
    let body = if call.request.content_type() == "application/vnd.kubernetes.protobuf" {
        crate::protobuf::decode(&call.request.body)
            .map_err(|why| ApiError::new(415, "UnsupportedMediaType", why))?
    } else {
        decode::json(&call.request.body).map_err(ApiError::bad_request)?.value
    };
    let seconds =
        body["spec"]["expirationSeconds"].as_i64().unwrap_or(3600).clamp(*LIFE.start(), *LIFE.end());
    let until = Timestamp::now().saturating_add(seconds.seconds()).unwrap_or_else(|_| Timestamp::now());
    let key = call.key();
    let token = call.state.accounts.token(&key.namespace, &key.name);
    let token =
        token.ok_or_else(|| ApiError::internal("too many service accounts have a token".to_owned()))?;
    let answer = json!({
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": key.name, "namespace": key.namespace, "creationTimestamp": clock::now()},
        "spec": {
            "audiences": body["spec"]["audiences"].as_array().cloned().unwrap_or_default(),
            "expirationSeconds": seconds,
            "boundObjectRef": Value::Null,
        },
        "status": {
            "token": token,
            "expirationTimestamp": clock::seconds(until),
        },
    });
    Ok(respond::document(call.request, 201, &answer))
}
