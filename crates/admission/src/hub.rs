//! Objects in the version that the rules work on.

use std::borrow::Cow;

use longboat_api::v1alpha2::GROUP;
use serde_json::{Value, json};

use crate::Version;

/// The object in `v1alpha2`.
pub(crate) fn of(object: &Value, version: Version) -> Cow<'_, Value> {
    match version {
        Version::V1Alpha2 => Cow::Borrowed(object),
        Version::V1Alpha1 => {
            let mut object = object.clone();
            object["apiVersion"] = json!(format!("{GROUP}/v1alpha2"));
            if let Some(Value::Object(pool)) = object.pointer_mut("/spec/router/scheduler/pool") {
                pool.remove("spec");
            }
            Cow::Owned(object)
        }
    }
}
