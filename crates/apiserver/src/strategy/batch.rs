//! Jobs and CronJobs.

use serde_json::{Value, json};

use super::{apps, fill};
use crate::{kinds::Resource, status::Cause};

/// Fills in a Job or CronJob.
pub(super) fn default(resource: &Resource, value: &mut Value) {
    if resource.plural == "cronjobs" {
        let spec = &mut value["spec"];
        if !spec.is_object() {
            *spec = json!({});
        }
        fill(spec, "concurrencyPolicy", "Allow");
        fill(spec, "suspend", false);
        fill(spec, "successfulJobsHistoryLimit", 3);
        fill(spec, "failedJobsHistoryLimit", 1);
        if !spec["jobTemplate"].is_object() {
            spec["jobTemplate"] = json!({});
        }
        fill(&mut spec["jobTemplate"], "metadata", json!({}));
        fill(&mut spec["jobTemplate"], "spec", json!({}));
        apps::default_template(&mut spec["jobTemplate"]["spec"]["template"]);
        return;
    }
    let spec = &mut value["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = Value::from(1);
    }
    fill(spec, "parallelism", 1);
    if spec["backoffLimitPerIndex"].is_null() {
        fill(spec, "backoffLimit", 6);
    } else {
        fill(spec, "backoffLimit", i32::MAX);
    }
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let policy = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    fill(spec, "podReplacementPolicy", policy);
    apps::default_template(&mut spec["template"]);
}

/// Labels and the selector that tie a job to its pods.
pub(super) fn prepare_create(resource: &Resource, value: &mut Value) {
    value["status"] = json!({});
    if resource.plural != "jobs" {
        return;
    }
    if value["spec"]["manualSelector"] == true {
        return;
    }
    let uid = value["metadata"]["uid"].clone();
    let name = value["metadata"]["name"].clone();
    let labels = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    for (key, content) in labels {
        value["spec"]["template"]["metadata"]["labels"][key] = content.clone();
    }
    if value["metadata"]["labels"].is_null() {
        value["metadata"]["labels"] = value["spec"]["template"]["metadata"]["labels"].clone();
    }
    value["spec"]["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
}

/// Everything wrong with a Job or CronJob.
pub(super) fn validate(resource: &Resource, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if resource.plural == "cronjobs" {
        if value["spec"]["schedule"].as_str().is_none_or(str::is_empty) {
            causes.push(Cause::required("spec.schedule", ""));
        }
        causes.extend(apps::validate_template(
            &value["spec"]["jobTemplate"]["spec"]["template"],
            "spec.jobTemplate.spec.template",
            &["OnFailure", "Never"],
        ));
        return causes;
    }
    causes.extend(apps::validate_template(
        &value["spec"]["template"],
        "spec.template",
        &["OnFailure", "Never"],
    ));
    if let Some(live) = live {
        for key in ["completions", "selector", "template"] {
            if value["spec"][key] != live["spec"][key] {
                causes.push(Cause::invalid(format!("spec.{key}"), &value["spec"][key], "field is immutable"));
            }
        }
    }
    causes
}
