//! Metadata of all kinds.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    checks::{self, IMMUTABLE, NOT_DISTINCT},
    names,
};
use crate::{Cause, Field, causes_of, kinds::Resource};

const FINALIZERS: &str = "metadata.finalizers";

/// Returns all validation errors of the metadata.
pub(super) fn validate(resource: &Resource, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = causes_of(value, "", |object| content(resource, &object.at("metadata")));
    if let Some(live) = live {
        // kube-apiserver validates the metadata of an update several times, and reports each error each time
        let once = causes.clone();
        let looks = resource.built_in().map_or(1, |row| row.strategy.metadata_validations());
        for look in 1..looks {
            // two of these validations skip finalizers
            let sees_all = look + 2 < looks;
            causes.extend(
                once.iter().filter(|cause| sees_all || !cause.field.starts_with(FINALIZERS)).cloned(),
            );
        }
        causes.extend(causes_of(value, "", |object| {
            changes(&object.at("metadata"), &live["metadata"]);
            // built-in kinds validate the metadata changes of an update twice, and report each error twice
            if resource.custom().is_none() {
                object.repeat();
            }
        }));
    }
    causes
}

fn content(resource: &Resource, metadata: &Field<'_>) {
    let rule = resource.strategy().name_rule();
    let (name, generate) = (metadata.at("name"), metadata.at("generateName"));
    let prefix = generate.as_text();
    if !prefix.is_empty() {
        // the generated suffix makes a trailing dash or dot valid
        let sample = prefix.strip_suffix(['-', '.']).map_or_else(|| prefix.to_owned(), |p| format!("{p}a"));
        for problem in names::problems(rule, &sample) {
            generate.invalid(problem);
        }
    }
    name.not_empty("name or generateName is required");
    name.optional_name(rule);
    checks::not_negative(&metadata.at("generation"));
    labels_and_annotations(metadata);
    owners(&metadata.at("ownerReferences"));
    finalizers(resource, &metadata.at("finalizers"));
}

pub(super) fn labels_and_annotations(metadata: &Field<'_>) {
    checks::labels(&metadata.at("labels"));
    checks::annotations(&metadata.at("annotations"));
}

fn owners(owners: &Field<'_>) {
    let mut controllers = Vec::new();
    let all = || owners.value.as_array().into_iter().flatten();
    for owner in all().map(|owner| owners.with(owner)) {
        let version = owner.text_at("apiVersion");
        let text = version.as_text();
        if text.is_empty() || text.matches('/').count() > 1 || text.ends_with('/') {
            version.invalid("version must not be empty");
        }
        for key in ["kind", "name", "uid"].into_iter().filter(|key| owner.text(key).is_empty()) {
            owner.at(key).invalid_as("\"\"", "must not be empty");
        }
        if text == "v1" && owner.text("kind") == "Event" {
            owners.invalid_as(shown_owner(&owner), "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner["controller"] == true {
            controllers.push(format!("{}/{}", owner.text("kind"), owner.text("name")));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let all: Vec<String> = all().map(shown_owner).collect();
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        owners.invalid_as(format!("[{}]", all.join(",")), detail);
    }
}

/// Returns an owner reference with its fields in the order of the Go type.
fn shown_owner(owner: &Value) -> String {
    let fields: Vec<String> = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"]
        .iter()
        .filter_map(|key| Some(format!("\"{key}\":{}", owner.get(*key)?)))
        .collect();
    format!("{{{}}}", fields.join(","))
}

/// Drops owner references whose uid occurs earlier in the list. Returns a warning if there were any.
pub(super) fn dedupe_owners(metadata: &mut Value) -> Option<String> {
    let owners = metadata.get_mut("ownerReferences")?.as_array_mut()?;
    let mut seen: HashSet<Value> = HashSet::new();
    let mut twice: Vec<String> = Vec::new();
    owners.retain(|owner| {
        let new = seen.insert(owner["uid"].clone());
        if !new {
            twice.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        new
    });
    (!twice.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        )
    })
}

fn finalizers(resource: &Resource, finalizers: &Field<'_>) {
    let mut policies = 0;
    for (index, finalizer) in finalizers.as_array().into_iter().flatten().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        policies += usize::from(matches!(name, "orphan" | "foregroundDeletion"));
        let finalizer = finalizers.with(finalizer);
        for problem in names::qualified_name_problems(name) {
            finalizer.invalid(problem);
        }
        if !is_distinct(resource, name) {
            finalizer.named(format!("{FINALIZERS}[{index}]")).invalid(NOT_DISTINCT);
        }
    }
    if policies > 1 {
        finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set");
    }
}

/// Whether a finalizer is one of the standard ones or has a domain. For custom resources a violation is only a warning.
fn is_distinct(resource: &Resource, name: &str) -> bool {
    resource.custom().is_some() || resource.group == "apiextensions.k8s.io" || has_domain_or_is_standard(name)
}

fn has_domain_or_is_standard(finalizer: &str) -> bool {
    finalizer.contains('/') || matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes")
}

fn changes(metadata: &Field<'_>, live: &Value) {
    if live["deletionTimestamp"].is_string() {
        let old: HashSet<&Value> = live["finalizers"].as_array().into_iter().flatten().collect();
        let added = metadata.list("finalizers").iter().filter(|finalizer| !old.contains(finalizer));
        let added: Vec<String> = added.filter_map(Value::as_str).map(|name| format!("{name:?}")).collect();
        if !added.is_empty() {
            metadata.at("finalizers").forbidden(format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            ));
        }
    }
    for key in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        if metadata[key] != live[key] {
            metadata.at(key).invalid(IMMUTABLE);
        }
    }
}

/// Returns a warning for each new finalizer without a domain, because its name may not be unique.
pub(super) fn warnings(resource: &Resource, value: &Value, live: Option<&Value>) -> Vec<String> {
    // For custom resources, the message is shorter.
    let path = if resource.custom().is_some() { "" } else { " including a path (/)" };
    let old = live.and_then(|live| live["metadata"]["finalizers"].as_array()).into_iter().flatten();
    let old: HashSet<&str> = old.filter_map(Value::as_str).collect();
    value["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|name| !has_domain_or_is_standard(name) && !old.contains(name))
        .map(|name| {
            format!(
                "metadata.finalizers: \"{name}\": prefer a domain-qualified finalizer name{path} to avoid \
                 accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}
