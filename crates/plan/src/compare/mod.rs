//! Whether a live child is as it should be.
//!
//! The reference sends a dry-run to the server before each comparison. Here the desired object gets the defaults that the
//! server would fill in, and is compared with the cached live object. Only a difference leads to a write.
//!
//! Metadata is compared in one direction: labels and annotations that others put on a child are not a difference, and are
//! kept.

mod account;
mod autoscaler;
mod budget;
mod claim;
mod deployment;
mod group;
mod network_policy;
mod pool;
mod quantity;
mod rbac;
mod route;
mod secret;
mod service;
mod tree;

#[cfg(test)]
mod tests;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_api::annotations::ASKED_FOR;

use crate::labels::Map;

pub(crate) use tree::same;

/// Compares a desired object with the live one, and prepares to replace it.
pub trait Compare: Sized {
    /// Whether the live object must be updated to match this one.
    fn differs(&self, live: &Self) -> bool;

    /// Copies from the live object what this controller does not decide, so that this object can replace it: the resource
    /// version, metadata that others added, values that the server allocated.
    fn carry_over(&mut self, live: &Self);

    /// Fills in the defaults that the server would fill in when this object is written.
    fn fill_in_defaults(&mut self) {}

    /// Whether an immutable field differs, so that the live object must be deleted and created again.
    fn is_fixed(&self, _live: &Self) -> bool {
        false
    }

    /// The service accounts that the pods of this object run under. This object is written only after the roles of these
    /// accounts are bound.
    fn accounts(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether the dependents of the live object are orphaned when it is deleted, so that the new object can adopt them.
    const INHERITS: bool = false;
}

/// Whether two values of the field `key` mean the same to the API server. A missing value, null and an empty value are equal;
/// quantities compare by value.
pub fn same_value(key: &str, a: Option<&serde_json::Value>, b: Option<&serde_json::Value>) -> bool {
    let null = &serde_json::Value::Null;
    tree::equal(a.unwrap_or(null), b.unwrap_or(null), key)
}

/// Whether a desired label, annotation or owner reference is missing on the live object or has another value.
fn metadata_differs(desired: &ObjectMeta, live: &ObjectMeta) -> bool {
    !contained(desired.labels.as_ref(), live.labels.as_ref())
        || !contained(desired.annotations.as_ref(), live.annotations.as_ref())
        || desired
            .owner_references
            .iter()
            .flatten()
            .any(|owner| !live.owner_references.iter().flatten().any(|o| o == owner))
}

/// Whether every entry of `desired` is among those of `live`.
fn contained(desired: Option<&Map>, live: Option<&Map>) -> bool {
    desired.into_iter().flatten().all(|(key, value)| live.is_some_and(|live| live.get(key) == Some(value)))
}

/// Whether the service set this field before. If nobody ever set the field, its live value is left alone.
pub(crate) fn was_asked_for(live: &ObjectMeta) -> bool {
    live.annotations.as_ref().is_some_and(|all| all.contains_key(ASKED_FOR))
}

fn carry_over_metadata(desired: &mut ObjectMeta, live: &ObjectMeta) {
    fn keep(desired: &mut Option<Map>, live: Option<&Map>) {
        for (key, value) in live.into_iter().flatten().filter(|(key, _)| *key != ASKED_FOR) {
            desired.get_or_insert_default().entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    desired.resource_version.clone_from(&live.resource_version);
    desired.finalizers.clone_from(&live.finalizers);
    keep(&mut desired.labels, live.labels.as_ref());
    keep(&mut desired.annotations, live.annotations.as_ref());
    for owner in live.owner_references.iter().flatten() {
        let owners = desired.owner_references.get_or_insert_default();
        if !owners.iter().any(|present| present.uid == owner.uid) {
            owners.push(owner.clone());
        }
    }
}
