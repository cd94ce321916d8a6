//! Service accounts.

use k8s_openapi::api::core::v1::ServiceAccount;

use super::{Compare, carry_over_metadata};

impl Compare for ServiceAccount {
    /// Token controllers add secrets to the live account, so it differs only if a desired secret is missing.
    fn content_differs(&self, live: &Self) -> bool {
        lacks(self.secrets.as_ref(), live.secrets.as_ref())
            || lacks(self.image_pull_secrets.as_ref(), live.image_pull_secrets.as_ref())
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
        keep(&mut self.secrets, live.secrets.as_ref());
        keep(&mut self.image_pull_secrets, live.image_pull_secrets.as_ref());
    }
}

/// Whether the live list lacks a reference.
fn lacks<T: PartialEq>(desired: Option<&Vec<T>>, live: Option<&Vec<T>>) -> bool {
    desired.into_iter().flatten().any(|reference| live.is_none_or(|live| !live.contains(reference)))
}

/// Adds the live references.
fn keep<T: PartialEq + Clone>(desired: &mut Option<Vec<T>>, live: Option<&Vec<T>>) {
    for reference in live.into_iter().flatten() {
        let desired = desired.get_or_insert_default();
        if !desired.contains(reference) {
            desired.push(reference.clone());
        }
    }
}
