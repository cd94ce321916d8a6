//! Validation of references to fields of the pod and to resources of its containers.

use serde_json::Value;

use crate::{
    Cause,
    checks::{qualified, text},
};

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
pub(super) fn field(reference: &Value, path: &str, known: &[&str], causes: &mut Vec<Cause>) {
    let (field, own) = (text(reference, "fieldPath"), format!("{path}.fieldPath"));
    if field.is_empty() {
        causes.push(Cause::required(own, ""));
        return;
    }
    let mut refuse = |why: String| {
        let detail = format!("error converting fieldPath: {why}");
        causes.push(Cause::invalid(own.as_str(), &reference["fieldPath"], detail));
    };
    let version = reference["apiVersion"].as_str().unwrap_or("v1");
    if version != "v1" {
        refuse(format!("unsupported pod version: {version}"));
        return;
    }
    if let Some((map, rest)) = field.split_once("['")
        && let Some(key) = rest.strip_suffix("']")
    {
        match map {
            "metadata.labels" => qualified(key, path, causes),
            "metadata.annotations" => qualified(&key.to_lowercase(), path, causes),
            _ => refuse(format!("field label does not support subscript: {field}")),
        }
        return;
    }
    let is_named =
        [&ENVIRONMENT_FIELDS[..], &VOLUME_FIELDS, &OTHER_FIELDS].iter().any(|list| list.contains(&field));
    if !is_named {
        refuse(format!("field label not supported: {field}"));
    } else if !known.contains(&field) {
        causes.push(Cause::unsupported(own, &reference["fieldPath"], known));
    }
}

/// Validates a reference to a resource of a container. Only a file must name the container.
pub(super) fn resource(reference: &Value, path: &str, is_file: bool, causes: &mut Vec<Cause>) {
    let resource = text(reference, "resource");
    let is_huge =
        ["limits.hugepages-", "requests.hugepages-"].iter().any(|start| resource.starts_with(start));
    if is_file && text(reference, "containerName").is_empty() {
        causes.push(Cause::required(format!("{path}.containerName"), ""));
    } else if resource.is_empty() {
        causes.push(Cause::required(format!("{path}.resource"), ""));
    } else if !RESOURCES.contains(&resource) && !is_huge {
        causes.push(Cause::unsupported(format!("{path}.resource"), &reference["resource"], &RESOURCES));
    }
    let (divisors, kind) = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") => (CPU_DIVISORS, "cpu"),
        Some("memory") => (BYTE_DIVISORS, "memory"),
        Some("ephemeral-storage") => (BYTE_DIVISORS, "local ephemeral storage"),
        _ if is_huge => (BYTE_DIVISORS, "hugepages"),
        _ => return,
    };
    let divisor = text(reference, "divisor");
    if !matches!(divisor, "" | "0") && !divisors.contains(&divisor) {
        let shown = if kind == "cpu" { divisors.join(" and ") } else { divisors.join(", ") };
        let detail = format!("only divisor's values {shown} are supported with the {kind} resource");
        causes.push(Cause::invalid(format!("{path}.divisor"), &reference["resource"], detail));
    }
}
