//! Service accounts.

use k8s_openapi::api::core::v1::ServiceAccount;

use super::{Compare, carry_over_metadata, metadata_differs};

impl Compare for ServiceAccount {
    /// Token controllers add secrets to the live account, so it differs only if a desired secret is missing.
    fn differs(&self, live: &Self) -> bool {
        let contained = |secret| live.secrets.iter().flatten().any(|present| present == secret);
        let pulls = |secret| live.image_pull_secrets.iter().flatten().any(|present| present == secret);
        metadata_differs(&self.metadata, &live.metadata)
            || !self.secrets.iter().flatten().all(contained)
            || !self.image_pull_secrets.iter().flatten().all(pulls)
    }

    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(&mut self.metadata, &live.metadata);
        for secret in live.secrets.iter().flatten() {
            let secrets = self.secrets.get_or_insert_default();
            if !secrets.contains(secret) {
                secrets.push(secret.clone());
            }
        }
        for secret in live.image_pull_secrets.iter().flatten() {
            let secrets = self.image_pull_secrets.get_or_insert_default();
            if !secrets.contains(secret) {
                secrets.push(secret.clone());
            }
        }
    }
}
