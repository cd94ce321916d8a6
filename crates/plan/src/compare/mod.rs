//! Whether a live child is as it should be.
//!
//! The reference sends a dry-run to the server before each comparison. Here the desired object gets the defaults that the
//! server would fill in, and is compared with the cached live object. Only a difference leads to a write. The live object gets
//! the same defaults, because an older server may not know all of them.
//!
//! Metadata is compared in one direction: labels and annotations that others put on a child are not a difference, and are
//! kept.

mod account;
mod autoscaler;
mod claim;
mod deployment;
mod group;
mod rbac;
mod route;
mod secret;
mod service;
mod whole_spec;

#[cfg(test)]
mod tests;

use k8s_openapi::{Metadata, api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use longboat_api::annotations::ASKED_FOR;
use longboat_quantity::Quantity;
use longboat_strategy::defaults::{fill_in, is_zero};
use longboat_types::{Shape, TypeDef};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::labels::Map;

/// Compares a desired object with the live one, and prepares to replace it.
pub trait Compare: Serialize + DeserializeOwned + Metadata<Ty = ObjectMeta> {
    /// The name of the type of the spec in the table of types. It is empty if the kind has no spec with defaults.
    const SPEC: &'static str = "";

    /// Whether the live object must be updated to match this one.
    fn differs(&self, live: &Self) -> bool {
        metadata_differs(self.metadata(), live.metadata()) || self.content_differs(live)
    }

    /// Whether it must be updated for anything else than a missing label, annotation or owner reference.
    fn content_differs(&self, live: &Self) -> bool;

    /// Copies from the live object what this controller does not decide, so that this object can replace it: the resource
    /// version, metadata that others added, values that the server allocated.
    fn carry_over(&mut self, live: &Self) {
        carry_over_metadata(self.metadata_mut(), live.metadata());
    }

    /// Fills in the defaults that the server would fill in when this object is written.
    fn fill_in_defaults(&mut self) {
        if Self::SPEC.is_empty() {
            return;
        }
        let filled = serde_json::to_value(&*self).and_then(|mut object| {
            object["spec"] = stored(Self::SPEC, &object["spec"]);
            serde_json::from_value(object)
        });
        if let Ok(filled) = filled {
            *self = filled;
        }
    }

    /// Whether an immutable field differs, so that the live object must be deleted and created again.
    fn must_be_recreated(&self, _live: &Self) -> bool {
        false
    }

    /// The service accounts that the pods of this object run under. This object is written only after the roles of these
    /// accounts are bound.
    fn accounts(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Whether the dependents of the live object are orphaned when it is deleted, so that the new object can adopt them.
    const ORPHANS_DEPENDENTS: bool = false;
}

/// A value of a type of the table as the API server stores it. Values that mean the same to it are equal in this form.
fn stored(type_name: &str, value: &impl Serialize) -> Value {
    // What cannot be written as JSON cannot be sent either.
    let mut value = serde_json::to_value(value).unwrap_or_default();
    if value.is_null() {
        value = json!({});
    }
    fill_in(type_name, &mut value);
    value
}

/// Whether one of these fields differs in two values of a type of the table.
fn fields_differ<T: Serialize>(type_name: &str, fields: &[&str], desired: &T, live: &T) -> bool {
    let (desired, live) = (stored(type_name, desired), stored(type_name, live));
    fields.iter().any(|field| desired[field] != live[field])
}

/// Whether the values at a place of two objects of this type mean the same to the API server. A missing value and a zero value
/// are equal unless Go has a pointer there, and quantities compare by value.
pub fn same_value(of: Option<&TypeDef>, pointer: &str, a: Option<&Value>, b: Option<&Value>) -> bool {
    let (a, b) = (a.filter(|a| !a.is_null()), b.filter(|b| !b.is_null()));
    let Some((field, shape)) = of.and_then(|of| of.place(pointer)).filter(|_| a != b) else { return a == b };
    match (shape, a, b) {
        (Shape::Quantity, Some(a), Some(b)) => {
            let amount = |value: &Value| value.as_str().and_then(Quantity::parse);
            amount(a).is_some_and(|amount_of_a| amount(b) == Some(amount_of_a))
        }
        (_, Some(value), None) | (_, None, Some(value)) => {
            // Only the field itself may be left out for its zero value. An element of its list or map is there, or it is not.
            std::ptr::eq(shape, &raw const field.shape) && !field.pointer && is_zero(value)
        }
        _ => false,
    }
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

/// Whether two stored pod templates differ, so that pods roll. The metadata of the live one may have additional labels and annotations.
fn pods_differ(desired: &Value, live: &Value) -> bool {
    let lacks = |key: &str| {
        let mut entries = desired["metadata"][key].as_object().into_iter().flatten();
        entries.any(|(name, value)| live["metadata"][key].get(name) != Some(value))
    };
    lacks("labels") || lacks("annotations") || desired["spec"] != live["spec"]
}

/// Whether every entry of `desired` is among those of `live`.
fn contained(desired: Option<&Map>, live: Option<&Map>) -> bool {
    desired.into_iter().flatten().all(|(key, value)| live.is_some_and(|live| live.get(key) == Some(value)))
}

/// Whether the service set this field before. If nobody ever set the field, its live value is left alone.
pub(crate) fn was_asked_for(live: &ObjectMeta) -> bool {
    live.annotations.as_ref().is_some_and(|all| all.contains_key(ASKED_FOR))
}

/// Keeps the labels and annotations that others added to a pod template. A write without them would roll the pods.
fn keep_pod_metadata(desired: &mut PodTemplateSpec, live: &PodTemplateSpec) {
    let Some(live) = &live.metadata else { return };
    let desired = desired.metadata.get_or_insert_default();
    keep(&mut desired.labels, live.labels.as_ref());
    keep(&mut desired.annotations, live.annotations.as_ref());
}

/// Adds the entries that only `live` has.
fn keep(desired: &mut Option<Map>, live: Option<&Map>) {
    for (key, value) in live.into_iter().flatten().filter(|(key, _)| *key != ASKED_FOR) {
        desired.get_or_insert_default().entry(key.clone()).or_insert_with(|| value.clone());
    }
}

fn carry_over_metadata(desired: &mut ObjectMeta, live: &ObjectMeta) {
    desired.resource_version.clone_from(&live.resource_version);
    // No child has finalizers of ours. A replace without those of others, such as KEDA's, would remove them.
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
