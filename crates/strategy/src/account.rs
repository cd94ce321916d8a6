//! ServiceAccounts.

use serde_json::Value;

use super::{Strategy, drop_empty};

/// ServiceAccounts.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn default(&self, value: &mut Value) {
        drop_empty(value, &["secrets", "imagePullSecrets"]);
        for list in ["secrets", "imagePullSecrets"] {
            for reference in value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                drop_empty(reference, &["name", "namespace", "kind", "apiVersion", "uid", "fieldPath"]);
            }
        }
    }

    fn shows_deleted(&self) -> bool {
        true
    }
}
