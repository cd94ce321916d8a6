//! The objects that the store cannot hold: too large, or too deep to be read back.

use longboat_schema::too_large;
use serde_json::Value;

use crate::{
    depth,
    kinds::Resource,
    status::{ApiError, Cause},
};

/// Refuses an object that is too large to be stored. On a cluster, etcd refuses it, and kube-apiserver passes the message on.
pub(crate) fn refuse_large(value: &Value) -> Result<(), ApiError> {
    match too_large(value) {
        Some(why) => Err(ApiError::new(413, "RequestEntityTooLarge", why)),
        None => Ok(()),
    }
}

/// Refuses an object that is too deep to be read back: defaults and managed fields may have made it deeper than its body.
pub(crate) fn refuse_deep(resource: &Resource, value: &Value) -> Result<(), ApiError> {
    depth::check(value).map_err(|error| {
        let name = value["metadata"]["name"].as_str().unwrap_or_default();
        let message = format!(
            "Too deep: may have at most {} levels of maps and lists, managedFields included",
            depth::MAX_DEPTH
        );
        let cause = Cause { reason: "FieldValueTooLong", message, field: error.path };
        ApiError::invalid(resource.about_kind(name), &[cause])
    })
}
