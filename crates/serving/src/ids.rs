//! The ids of answers and of their parts.

/// Returns a unique id.
pub(crate) fn unique() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
