//! `POST …/serviceaccounts/<name>/token`.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

use super::{Call, incoming};
use crate::{
    accounts,
    answer::Answer,
    clock,
    kinds::Resource,
    respond,
    status::{ApiError, Cause, StatusDetails},
    store::{Key, StoredObject},
    tokens::Grant,
};

/// The lifetime of a token whose request names none, and the shortest and longest, in seconds.
const DEFAULT_LIFETIME_SECONDS: i64 = 3600;
const MIN_LIFETIME_SECONDS: i64 = 600;
const MAX_LIFETIME_SECONDS: i64 = 1 << 32;

/// Answers with a new token of the account.
pub(crate) fn request(call: &Call<'_>) -> Result<Answer, ApiError> {
    let account = call.stored()?;
    let asked = Resource {
        group: "authentication.k8s.io".to_owned(),
        kind: "TokenRequest".to_owned(),
        ..Resource::clone(&call.resource)
    };
    let body = incoming::document(call, &asked)?.value;
    let spec = &body["spec"];
    let seconds = spec["expirationSeconds"].as_i64().unwrap_or(DEFAULT_LIFETIME_SECONDS);
    let detail = match seconds {
        ..MIN_LIFETIME_SECONDS => Some("may not specify a duration less than 10 minutes"),
        MIN_LIFETIME_SECONDS..=MAX_LIFETIME_SECONDS => None,
        _ => Some("may not specify a duration larger than 2^32 seconds"),
    };
    if let Some(detail) = detail {
        let about = StatusDetails { group: &asked.group, kind: &asked.kind, name: "" };
        let cause = Cause::invalid("spec.expirationSeconds", &spec["expirationSeconds"], detail);
        return Err(ApiError::invalid(about, &[cause]));
    }
    let pod = bound_pod(call, &account, &spec["boundObjectRef"])?;
    let audiences = accounts::audiences_or_own(&spec["audiences"]);
    let now = Timestamp::now();
    let expires = now.saturating_add(seconds.seconds()).unwrap_or(Timestamp::MAX);
    let key = call.key();
    let grant = Grant {
        account: key.clone(),
        uid: account.metadata()["uid"].as_str().unwrap_or_default().to_owned(),
        pod,
        audiences: audiences.iter().map(|audience| (*audience).to_owned()).collect(),
        expires,
    };
    let token = call.state.issuer.issue(&grant, now);
    let answer = json!({
        "kind": asked.kind,
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": key.name, "namespace": key.namespace, "creationTimestamp": clock::seconds(now)},
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": spec["boundObjectRef"],
        },
        "status": {
            "token": token,
            "expirationTimestamp": clock::seconds(expires),
        },
    });
    Ok(respond::document(call.request, 201, &answer))
}

/// Returns the name and the uid of the pod to which the token is to be bound.
fn bound_pod(
    call: &Call<'_>,
    account: &Arc<StoredObject>,
    reference: &Value,
) -> Result<Option<(String, String)>, ApiError> {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    if reference.is_null() {
        return Ok(None);
    }
    if (text("apiVersion"), text("kind")) != ("v1", "Pod") {
        return Err(ApiError::bad_request(format!(
            "cannot bind token to object of type {}, Kind={}: this server binds tokens to pods",
            text("apiVersion"),
            text("kind")
        )));
    }
    let (name, account) = (text("name"), Key::of(account.value.head()));
    let about = StatusDetails { group: "", kind: "pods", name };
    let pod = accounts::find(call.state, "pods", &Key::new(account.namespace.as_str(), name))
        .map_err(|_| ApiError::not_found(about))?;
    let own = pod.value["spec"]["serviceAccountName"].as_str().filter(|name| !name.is_empty());
    let own = own.unwrap_or("default");
    if own != account.name {
        return Err(ApiError::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            account.name
        )));
    }
    let uid = pod.metadata()["uid"].as_str().unwrap_or_default();
    if !text("uid").is_empty() && text("uid") != uid {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
             deleted and then recreated",
            text("uid")
        );
        return Err(ApiError::conflict(about, why));
    }
    Ok(Some((name.to_owned(), uid.to_owned())))
}
