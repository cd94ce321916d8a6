//! Secrets and config maps.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::Compare;

impl Compare for Secret {
    fn content_differs(&self, live: &Self) -> bool {
        self.type_ != live.type_ || self.data != live.data
    }
}

impl Compare for ConfigMap {
    /// Keys that others add are not a difference.
    fn content_differs(&self, live: &Self) -> bool {
        let present = |(key, value)| live.data.as_ref().is_some_and(|data| data.get(key) == Some(value));
        !self.data.iter().flatten().all(present)
    }
}
