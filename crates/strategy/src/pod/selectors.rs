//! Validation of references to fields of the pod and to resources of its containers.

use serde_json::Value;

use crate::{Field, checks::qualified};

/// The fields that environment variables can have, apart from labels and annotations.
pub(super) const ENVIRONMENT_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The fields that files can have.
pub(super) const VOLUME_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// The fields that have a name in the API, whether or not something can have their value.
const OTHER_FIELDS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];
/// What the field `spec.nodeName` was called before. References to it are still valid.
const FORMER_NODE_NAME: &str = "spec.host";
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const CPU_DIVISORS: &[&str] = &["1m", "1"];
const BYTE_DIVISORS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates a reference to a field of the pod. `known` are the fields that the place can have.
pub(super) fn field(reference: &Field<'_>, known: &[&str]) {
    let given = reference.at("fieldPath");
    let current = Value::from("spec.nodeName");
    let place = given.with(if given.as_text() == FORMER_NODE_NAME { &current } else { given.value });
    let field = place.as_text();
    if field.is_empty() {
        place.required("");
        return;
    }
    let refuse = |why: String| place.invalid(format!("error converting fieldPath: {why}"));
    let version = reference["apiVersion"].as_str().unwrap_or("v1");
    if version != "v1" {
        refuse(format!("unsupported pod version: {version}"));
        return;
    }
    if let Some((map, rest)) = field.split_once("['")
        && let Some(key) = rest.strip_suffix("']")
    {
        match map {
            "metadata.labels" => qualified(reference, key),
            "metadata.annotations" => qualified(reference, &key.to_lowercase()),
            _ => refuse(format!("field label does not support subscript: {field}")),
        }
        return;
    }
    let is_named =
        [&ENVIRONMENT_FIELDS[..], &VOLUME_FIELDS, &OTHER_FIELDS].iter().any(|list| list.contains(&field));
    if !is_named {
        refuse(format!("field label not supported: {field}"));
    } else if !known.contains(&field) {
        place.unsupported(known);
    }
}

/// Validates a reference to a resource of a container. Only a file must name the container.
pub(super) fn resource(reference: &Field<'_>, is_file: bool) {
    let place = reference.at("resource");
    let resource = place.as_text();
    let is_huge =
        ["limits.hugepages-", "requests.hugepages-"].iter().any(|start| resource.starts_with(start));
    if is_file && reference.text("containerName").is_empty() {
        reference.at("containerName").required("");
    } else if resource.is_empty() {
        place.required("");
    } else if !RESOURCES.contains(&resource) && !is_huge {
        place.unsupported(&RESOURCES);
    }
    let (divisors, kind) = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") => (CPU_DIVISORS, "cpu"),
        Some("memory") => (BYTE_DIVISORS, "memory"),
        Some("ephemeral-storage") => (BYTE_DIVISORS, "local ephemeral storage"),
        _ if is_huge => (BYTE_DIVISORS, "hugepages"),
        _ => return,
    };
    let divisor = reference.text("divisor");
    if !matches!(divisor, "" | "0") && !divisors.contains(&divisor) {
        let shown = if kind == "cpu" { divisors.join(" and ") } else { divisors.join(", ") };
        let detail = format!("only divisor's values {shown} are supported with the {kind} resource");
        reference.at("divisor").with(place.value).invalid(detail);
    }
}
