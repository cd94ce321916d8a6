//! Annotations of a service that turn something on or off. KServe does not have them.

use std::collections::BTreeMap;

/// An invalid value of a switch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is unknown: expected \"true\" or \"false\"")]
pub struct UnknownValue(pub String);

/// Returns the value of a switch in the annotations of a service, or `None` if they do not have it.
///
/// # Errors
///
/// If the value is neither `true` nor `false`.
pub fn value(
    annotations: Option<&BTreeMap<String, String>>,
    switch: &str,
) -> Result<Option<bool>, UnknownValue> {
    match annotations.and_then(|all| all.get(switch)).map(String::as_str) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => Err(UnknownValue(other.chars().take(64).collect())),
    }
}
