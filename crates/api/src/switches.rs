//! Annotations of a service that turn something on or off. KServe does not have them.

use std::collections::BTreeMap;

/// Returns the value of a switch in the annotations of a service, or `None` if they do not have it. Validation refuses other words
/// than `true` and `false`.
pub fn value(annotations: Option<&BTreeMap<String, String>>, switch: &str) -> Option<bool> {
    annotations?.get(switch)?.parse().ok()
}
