//! Whether a live child is as it should be.
//!
//! The reference asks the server by a dry-run before each comparison. Here the desired object gets the defaults that the
//! server is known to fill in, and is compared with the cached live one; only a difference leads to a write.
//!
//! Metadata is compared one way only: labels and annotations that others put on a child are no difference, and survive.

mod account;
mod autoscaler;
mod budget;
mod claim;
mod deployment;
mod group;
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

/// Comparing and replacing a live object.
pub trait Compare: Sized {
    /// Whether the live object has to be written to be like this one.
    fn differs(&self, live: &Self) -> bool;

    /// Takes over from the live object what is not ours to decide, so that this one can replace it: its resource
    /// version, the metadata of others, what the server allocated.
    fn carry_over(&mut self, live: &Self);

    /// Fills in what the server is known to fill in when this is written.
    fn fill_in_defaults(&mut self) {}

    /// Whether the difference is in what the server fixes at creation: then the live object has to make way.
    fn is_fixed(&self, _live: &Self) -> bool {
        false
    }

    /// The service accounts that its pods run under. It is written when the rights that are bound to them are.
    fn accounts(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether what the live object controls stays when it makes way, for this one to take over.
    const INHERITS: bool = false;
}

/// Whether two values of the field `key` mean the same to the API server: nothing, null and empty are one, quantities
/// compare by value.
pub fn same_value(key: &str, a: Option<&serde_json::Value>, b: Option<&serde_json::Value>) -> bool {
    let null = &serde_json::Value::Null;
    tree::equal(a.unwrap_or(null), b.unwrap_or(null), key)
}

/// Whether labels, annotations or owner are missing or other than wanted.
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

/// Whether the service asked for what stays as it is where nobody asks for anything.
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
