//! Metadata of all kinds.

use std::collections::HashSet;

use serde_json::Value;

use super::{Plain, Strategy, checks, names};
use crate::{Cause, kinds::Resource};

const FINALIZERS: &str = "metadata.finalizers";

const NOT_DISTINCT: &str = "name is neither a standard finalizer name nor is it fully qualified";

/// Returns all validation errors of the metadata.
pub(super) fn validate(resource: &Resource, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = content(resource, value);
    if let Some(live) = live {
        if !causes.is_empty() {
            // kube-apiserver validates the metadata of an update several times, and reports each error each time
            let once = causes.clone();
            let looks = resource.strategy().map_or(1, Strategy::metadata_validations);
            for look in 1..looks {
                // two of these validations skip finalizers
                let sees_all = look + 2 < looks;
                causes.extend(
                    once.iter().filter(|cause| sees_all || !cause.field.starts_with(FINALIZERS)).cloned(),
                );
            }
        }
        let changes = changes(value, live);
        // built-in kinds validate the metadata changes of an update twice, and report each error twice
        if resource.custom().is_none() {
            causes.extend(changes.clone());
        }
        causes.extend(changes);
    }
    causes
}

fn content(resource: &Resource, value: &Value) -> Vec<Cause> {
    let metadata = &value["metadata"];
    let mut causes = Vec::new();
    let rule = resource.strategy().unwrap_or(&Plain).name_rule();
    let name = metadata["name"].as_str().unwrap_or_default();
    let prefix = metadata["generateName"].as_str().unwrap_or_default();
    if !prefix.is_empty() {
        // the generated suffix makes a trailing dash or dot valid
        let sample = prefix.strip_suffix(['-', '.']).map_or_else(|| prefix.to_owned(), |p| format!("{p}a"));
        for problem in names::problems(rule, &sample) {
            causes.push(Cause::invalid("metadata.generateName", &Value::from(prefix), problem));
        }
    }
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else {
        for problem in names::problems(rule, name) {
            causes.push(Cause::invalid("metadata.name", &Value::from(name), problem));
        }
    }
    checks::not_negative(&metadata["generation"], "metadata.generation", &mut causes);
    labels_and_annotations(metadata, &mut causes);
    owners(&metadata["ownerReferences"], &mut causes);
    finalizers(resource, &metadata["finalizers"], &mut causes);
    causes
}

pub(super) fn labels_and_annotations(metadata: &Value, causes: &mut Vec<Cause>) {
    checks::labels(&metadata["labels"], "metadata.labels", causes);
    checks::annotations(&metadata["annotations"], "metadata.annotations", causes);
}

fn owners(owners: &Value, causes: &mut Vec<Cause>) {
    let path = "metadata.ownerReferences";
    let mut controllers = Vec::new();
    for owner in owners.as_array().into_iter().flatten() {
        let text = |key: &str| owner[key].as_str().unwrap_or_default();
        let version = text("apiVersion");
        if version.is_empty() || version.matches('/').count() > 1 || version.ends_with('/') {
            causes.push(Cause::invalid(
                format!("{path}.apiVersion"),
                &Value::from(version),
                "version must not be empty",
            ));
        }
        for key in ["kind", "name", "uid"] {
            if text(key).is_empty() {
                causes.push(Cause::invalid(format!("{path}.{key}"), &Value::from(""), "must not be empty"));
            }
        }
        if version == "v1" && text("kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid_as(path, shown_owner(owner), detail));
        }
        if owner["controller"] == true {
            controllers.push(format!("{}/{}", text("kind"), text("name")));
        }
    }
    if let [first, second, ..] = controllers.as_slice() {
        let all: Vec<String> = owners.as_array().into_iter().flatten().map(shown_owner).collect();
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {second}"
        );
        causes.push(Cause::invalid_as(path, format!("[{}]", all.join(",")), detail));
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

fn finalizers(resource: &Resource, finalizers: &Value, causes: &mut Vec<Cause>) {
    let path = FINALIZERS;
    let mut policies = 0;
    for (index, finalizer) in finalizers.as_array().into_iter().flatten().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        if name == "orphan" || name == "foregroundDeletion" {
            policies += 1;
        }
        for problem in names::qualified_name_problems(name) {
            causes.push(Cause::invalid(path, finalizer, problem));
        }
        if !is_distinct(resource, name) {
            causes.push(Cause::invalid(format!("{path}[{index}]"), finalizer, NOT_DISTINCT));
        }
    }
    if policies > 1 {
        causes.push(Cause::invalid(
            path,
            finalizers,
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

/// Whether a finalizer is one of the standard ones or has a domain. For custom resources a violation is only a warning.
fn is_distinct(resource: &Resource, name: &str) -> bool {
    resource.custom().is_some()
        || resource.group == "apiextensions.k8s.io"
        || name.contains('/')
        || matches!(name, "orphan" | "foregroundDeletion" | "kubernetes")
}

fn changes(value: &Value, live: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if live["metadata"]["deletionTimestamp"].is_string() {
        let old: HashSet<&Value> = live["metadata"]["finalizers"].as_array().into_iter().flatten().collect();
        let added: Vec<&str> = value["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|f| !old.contains(*f))
            .filter_map(Value::as_str)
            .collect();
        if !added.is_empty() {
            let quoted: Vec<String> = added.iter().map(|f| format!("{f:?}")).collect();
            causes.push(Cause::forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    quoted.join(", ")
                ),
            ));
        }
    }
    for key in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let (new, old) = (&value["metadata"][key], &live["metadata"][key]);
        if new != old {
            causes.push(Cause::invalid(format!("metadata.{key}"), new, "field is immutable"));
        }
    }
    causes
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
        .filter(|name| {
            !name.contains('/') && !matches!(*name, "orphan" | "foregroundDeletion" | "kubernetes")
        })
        .filter(|name| !old.contains(name))
        .map(|name| {
            format!(
                "metadata.finalizers: \"{name}\": prefer a domain-qualified finalizer name{path} to avoid \
                 accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}
