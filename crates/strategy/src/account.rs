//! ServiceAccounts.

use super::Strategy;

/// ServiceAccounts.
#[derive(Debug)]
pub(crate) struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn shows_deleted(&self) -> bool {
        true
    }
}
