//! Rules for managed dynamic resource allocation.

use std::collections::BTreeMap;

use longboat_key::names::{self, is_label, is_subdomain};

use super::Report;
use crate::annotations::{DRA_CEL_SELECTOR, DRA_CONTAINER_NAME, DRA_DEVICE_CLASS, DRA_DEVICE_COUNT};
use crate::v1alpha2::LLMInferenceService;

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
                &format!("container name must be a DNS label: {}", names::LABEL),
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
        report.invalid(field, &class, &format!("device class must be a DNS subdomain: {}", names::SUBDOMAIN));
    }
}

fn field(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}
