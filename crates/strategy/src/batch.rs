//! Jobs and CronJobs.

use serde_json::{Value, json};

use super::{Strategy, apps, checks, names, pod, selector::selects, update::keep_labels};
use crate::Field;

/// The restart policies of their pods.
const POLICIES: [&str; 2] = ["OnFailure", "Never"];

/// Jobs and CronJobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Batch {
    /// A Job.
    Job,
    /// A CronJob.
    CronJob,
}

impl Strategy for Batch {
    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({});
        if *self == Self::Job {
            set_job_labels(value);
        }
    }

    fn settle(&self, value: &mut Value) {
        if *self == Self::Job && value["metadata"]["labels"].is_null() {
            value["metadata"]["labels"] = value["spec"]["template"]["metadata"]["labels"].clone();
        }
    }

    fn prepare_status(&self, value: &mut Value, live: &Value) {
        keep_labels(value, live);
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        let spec = object.at("spec");
        if *self == Self::CronJob {
            spec.at("schedule").not_empty("");
            validate_schedule(object);
            job(&spec.at("jobTemplate.spec"));
            apps::validate_template(&spec.at("jobTemplate.spec.template"), &POLICIES);
            return;
        }
        job(&spec);
        selector(&spec);
        apps::validate_template(&spec.at("template"), &POLICIES);
        if let Some(live) = live {
            // an update validates the spec twice and reports each error twice
            object.repeat();
            for key in ["completions", "selector", "template"] {
                if spec[key] != live["spec"][key] {
                    spec.at(key).invalid(checks::IMMUTABLE);
                }
            }
        }
        validate_job_labels(object);
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        let spec = &value["spec"];
        let mut warnings = Vec::from_iter(checks::host_warning(value, "Pod names and hostnames"));
        warnings.extend(match self {
            Self::Job => pod::warnings(&spec["template"]["spec"], "spec.template.spec"),
            Self::CronJob => {
                let template = &spec["jobTemplate"]["spec"]["template"];
                pod::warnings(&template["spec"], "spec.jobTemplate.spec.template.spec")
            }
        });
        warnings
    }

    fn selectable(&self) -> &'static [&'static str] {
        match self {
            Self::Job => &["status.successful"],
            Self::CronJob => &[],
        }
    }
}

/// Sets the labels and the selector that connect a Job to its pods.
fn set_job_labels(value: &mut Value) {
    if value["spec"]["manualSelector"] == true {
        return;
    }
    let uid = value["metadata"]["uid"].clone();
    let labels = job_labels(value).map(|(key, content)| (key, Value::from(content)));
    // a job without labels gets the labels of its template, if there are any
    let shares =
        value["metadata"]["labels"].is_null() && value["spec"]["template"]["metadata"]["labels"].is_object();
    for (key, content) in labels {
        value["spec"]["template"]["metadata"]["labels"][key] = content;
    }
    if shares {
        value["metadata"]["labels"] = value["spec"]["template"]["metadata"]["labels"].clone();
    }
    value["spec"]["selector"] = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
}

/// Validates the labels that connect a Job to its pods, unless the user has set the selector.
fn validate_job_labels(job: &Field<'_>) {
    let spec = job.at("spec");
    if spec["manualSelector"] == true || !spec["selector"].is_object() {
        return;
    }
    let labels = spec.at("template.metadata.labels");
    for (key, wanted) in job_labels(job) {
        let label = labels.clone().named(format!("spec.template.metadata.labels[{key}]"));
        let detail = format!("must be '{wanted}'");
        match &labels[key] {
            Value::Null => label.required(detail),
            found if *found == wanted => {}
            _ => label.invalid(detail),
        }
    }
}

/// Returns the labels of a Job's pods.
fn job_labels(value: &Value) -> [(&'static str, &str); 4] {
    let [uid, name] = ["uid", "name"].map(|key| value["metadata"][key].as_str().unwrap_or_default());
    [
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ]
}

/// Validates the spec of a Job except for its template.
fn job(spec: &Field<'_>) {
    for key in
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
    {
        checks::not_negative(&spec.at(key));
    }
    spec.at("completionMode").one_of(&["NonIndexed", "Indexed"]);
    let is_indexed = spec["completionMode"] == "Indexed";
    if is_indexed && spec["completions"].is_null() {
        spec.at("completions").required("when completion mode is Indexed");
    }
    let limit = spec.at("backoffLimitPerIndex");
    if !limit.is_null() {
        checks::not_negative(&limit);
        if !is_indexed {
            limit.invalid("requires indexed completion mode");
        }
    }
    spec.at("podReplacementPolicy").one_of(&["Failed", "TerminatingOrFailed"]);
    let manager = spec.at("managedBy");
    if let Some(name) = manager.as_str()
        && !(name.contains('/') && names::qualified_name_problem(name).is_none())
    {
        manager.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
}

/// Validates the selector: it must exist and match the labels of the template.
fn selector(spec: &Field<'_>) {
    let (selector, labels) = (spec.at("selector"), spec.at("template.metadata.labels"));
    if !selector.is_object() {
        selector.required("");
    }
    if !selects(&selector, &labels) {
        labels.invalid("`selector` does not match template `labels`");
    }
}

/// Validates the fields of a CronJob's schedule, and the length of its name.
fn validate_schedule(object: &Field<'_>) {
    /// The longest name: the controller appends eleven characters for each Job.
    const MAX_NAME_LENGTH: usize = 52;
    let (name, spec) = (object.at("metadata.name"), object.at("spec"));
    if name.as_text().len() > MAX_NAME_LENGTH {
        name.invalid(format!("must be no more than {MAX_NAME_LENGTH} characters"));
    }
    let schedule = spec.at("schedule");
    let fields: Vec<&str> = schedule.as_text().split_whitespace().collect();
    if !schedule.as_text().is_empty() && !schedule.as_text().starts_with('@') && fields.len() != 5 {
        schedule.invalid(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    let zone = spec.at("timeZone");
    match zone.as_str() {
        Some("") => zone.invalid("timeZone must be nil or non-empty string"),
        Some(name) if jiff::tz::TimeZone::get(name).is_err() => {
            zone.invalid(format!("unknown time zone {name}"));
        }
        _ => {}
    }
    spec.at("concurrencyPolicy").one_of(&["Allow", "Forbid", "Replace"]);
    for key in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        checks::not_negative(&spec.at(key));
    }
}
