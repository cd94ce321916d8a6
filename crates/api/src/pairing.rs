//! Reads whether prefill and decode pods of different revisions are kept apart.

use std::collections::BTreeMap;

use crate::annotations::KV_PAIRING;

/// An invalid value of [`KV_PAIRING`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is unknown: expected \"true\" or \"false\"")]
pub struct UnknownValue(pub String);

/// Returns the setting in the annotations of a service, or `None` if they have none.
///
/// # Errors
///
/// If the value is neither `true` nor `false`.
pub fn of_annotations(annotations: Option<&BTreeMap<String, String>>) -> Result<Option<bool>, UnknownValue> {
    match annotations.and_then(|all| all.get(KV_PAIRING)).map(String::as_str) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => Err(UnknownValue(other.chars().take(64).collect())),
    }
}
