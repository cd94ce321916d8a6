//! Rules for managed dynamic resource allocation.

use std::collections::BTreeMap;

use super::Report;
use crate::annotations::{DRA_CEL_SELECTOR, DRA_CONTAINER_NAME, DRA_DEVICE_CLASS, DRA_DEVICE_COUNT};
use crate::v1alpha2::LLMInferenceService;

pub(super) const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

/// Checks the annotations of dynamic resource allocation.
pub(super) fn check(service: &LLMInferenceService, report: &mut Report) {
    let Some(annotations) = &service.metadata.annotations else { return };
    let get = |key: &str| annotations.get(key).map(String::as_str);
    check_class(get(DRA_DEVICE_CLASS), annotations, report);
    if let Some(count) = get(DRA_DEVICE_COUNT).filter(|c| !c.trim().is_empty())
        && count.trim().parse::<i64>().map_or(true, |n| n < 1)
    {
        report.invalid(
            field(DRA_DEVICE_COUNT),
            &count,
            &format!("invalid {DRA_DEVICE_COUNT} value {count:?}: must be a whole number of at least 1"),
        );
    }
    if let Some(selector) = get(DRA_CEL_SELECTOR).filter(|s| s.lines().all(|line| line.trim().is_empty())) {
        report.invalid(
            field(DRA_CEL_SELECTOR),
            &selector,
            "cel selector must contain at least one non-empty CEL expression",
        );
    }
    if let Some(name) = get(DRA_CONTAINER_NAME) {
        let trimmed = name.trim();
        if trimmed.is_empty() {
            report.invalid(field(DRA_CONTAINER_NAME), &name, "container name must not be empty");
        } else if !is_label(trimmed) {
            report.invalid(
                field(DRA_CONTAINER_NAME),
                &name,
                &format!("container name must be a DNS label: {LABEL}"),
            );
        }
    }
}

fn check_class(class: Option<&str>, annotations: &BTreeMap<String, String>, report: &mut Report) {
    let field = field(DRA_DEVICE_CLASS);
    let Some(class) = class else {
        let others = [DRA_DEVICE_COUNT, DRA_CEL_SELECTOR, DRA_CONTAINER_NAME];
        if others.iter().any(|key| annotations.contains_key(*key)) {
            report.required(
                field,
                &format!(
                    "{DRA_DEVICE_CLASS} is required to enable managed DRA when {DRA_DEVICE_COUNT}, \
                     {DRA_CEL_SELECTOR}, or {DRA_CONTAINER_NAME} is set"
                ),
            );
        }
        return;
    };
    let trimmed = class.trim();
    if trimmed.is_empty() {
        report.invalid(field, &class, "device class must not be empty");
    } else if !is_subdomain(trimmed) {
        report.invalid(field, &class, &format!("device class must be a DNS subdomain: {SUBDOMAIN}"));
    }
}

fn field(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_dns(text)
}

pub(super) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns)
}

fn is_dns(part: &str) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    part.starts_with(alphanumeric)
        && part.ends_with(alphanumeric)
        && part.chars().all(|c| alphanumeric(c) || c == '-')
}
