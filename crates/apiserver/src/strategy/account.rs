//! ServiceAccounts.

use serde_json::Value;

use super::{Strategy, drop_empty};

/// ServiceAccounts.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn default(&self, value: &mut Value) {
        drop_empty(value, &["secrets", "imagePullSecrets"]);
    }

    fn shows_deleted(&self) -> bool {
        true
    }
}
