//! Whether prefill and decode pods of different revisions are kept apart.

use std::collections::BTreeMap;

use crate::annotations::KV_PAIRING;

/// A value of [`KV_PAIRING`] that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is unknown: expected \"true\" or \"false\"")]
pub struct UnknownValue(pub String);

/// What the annotations of a service ask for; none if they do not say.
///
/// # Errors
/// When they say something that is neither `true` nor `false`.
pub fn of_annotations(annotations: Option<&BTreeMap<String, String>>) -> Result<Option<bool>, UnknownValue> {
    match annotations.and_then(|all| all.get(KV_PAIRING)).map(String::as_str) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => Err(UnknownValue(other.chars().take(64).collect())),
    }
}
