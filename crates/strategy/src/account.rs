//! ServiceAccounts.

use super::Strategy;

/// ServiceAccounts.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn returns_deleted_object(&self) -> bool {
        true
    }
}
