//! Jobs and CronJobs.

use serde_json::{Value, json};

use super::{Strategy, apps, checks, names, pod, update::keep_labels};
use crate::Cause;

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
            tie_pods(value);
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

    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        validate(*self, value, live)
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
fn tie_pods(value: &mut Value) {
    if value["spec"]["manualSelector"] == true {
        return;
    }
    let uid = value["metadata"]["uid"].clone();
    let labels = ties(value).map(|(key, content)| (key, Value::from(content)));
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

fn validate(kind: Batch, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if kind == Batch::CronJob {
        if value["spec"]["schedule"].as_str().is_none_or(str::is_empty) {
            causes.push(Cause::required("spec.schedule", ""));
        }
        validate_schedule(value, &mut causes);
        job(&value["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec", &mut causes);
        causes.extend(apps::validate_template(
            &value["spec"]["jobTemplate"]["spec"]["template"],
            "spec.jobTemplate.spec.template",
            &["OnFailure", "Never"],
        ));
        return causes;
    }
    job(&value["spec"], "spec", &mut causes);
    selector(&value["spec"], &mut causes);
    causes.extend(apps::validate_template(
        &value["spec"]["template"],
        "spec.template",
        &["OnFailure", "Never"],
    ));
    if let Some(live) = live {
        // an update validates the spec twice and reports each error twice
        causes.extend(causes.clone());
        for key in ["completions", "selector", "template"] {
            if value["spec"][key] != live["spec"][key] {
                causes.push(Cause::invalid(format!("spec.{key}"), &value["spec"][key], "field is immutable"));
            }
        }
    }
    tied(value, &mut causes);
    causes
}

/// Validates the labels that connect a Job to its pods, unless the user has set the selector.
fn tied(value: &Value, causes: &mut Vec<Cause>) {
    let spec = &value["spec"];
    if spec["manualSelector"] == true || !spec["selector"].is_object() {
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    for (key, wanted) in ties(value) {
        let path = format!("spec.template.metadata.labels[{key}]");
        let detail = format!("must be '{wanted}'");
        match &labels[key] {
            Value::Null => causes.push(Cause::required(path, detail)),
            found if *found == wanted => {}
            _ => causes.push(Cause::invalid(path, labels, detail)),
        }
    }
}

/// Returns the labels of a Job's pods.
fn ties(value: &Value) -> [(&'static str, &str); 4] {
    let (uid, name) = (checks::text(&value["metadata"], "uid"), checks::text(&value["metadata"], "name"));
    [
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ]
}

/// Validates the spec of a Job except for its template.
fn job(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for key in
        ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
    {
        checks::not_negative(&spec[key], &format!("{path}.{key}"), causes);
    }
    let own = format!("{path}.completionMode");
    checks::one_of(&spec["completionMode"], &own, &["NonIndexed", "Indexed"], causes);
    let is_indexed = spec["completionMode"] == "Indexed";
    if is_indexed && spec["completions"].is_null() {
        causes.push(Cause::required(format!("{path}.completions"), "when completion mode is Indexed"));
    }
    if !spec["backoffLimitPerIndex"].is_null() {
        let own = format!("{path}.backoffLimitPerIndex");
        checks::not_negative(&spec["backoffLimitPerIndex"], &own, causes);
        if !is_indexed {
            causes.push(Cause::invalid(
                own,
                &spec["backoffLimitPerIndex"],
                "requires indexed completion mode",
            ));
        }
    }
    let own = format!("{path}.podReplacementPolicy");
    checks::one_of(&spec["podReplacementPolicy"], &own, &["Failed", "TerminatingOrFailed"], causes);
    if let Some(manager) = spec["managedBy"].as_str()
        && !(manager.contains('/') && names::qualified_name_problem(manager).is_none())
    {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        causes.push(Cause::invalid(format!("{path}.managedBy"), &spec["managedBy"], detail));
    }
}

/// Validates the selector: it must exist and match the labels of the template.
fn selector(spec: &Value, causes: &mut Vec<Cause>) {
    if !spec["selector"].is_object() {
        causes.push(Cause::required("spec.selector", ""));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if !spec["selector"].is_object() || !apps::matches(&spec["selector"], labels) {
        causes.push(Cause::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
}

/// Validates the fields of a CronJob's schedule, and the length of its name.
fn validate_schedule(value: &Value, causes: &mut Vec<Cause>) {
    /// The longest name: the controller appends eleven characters for each Job.
    const MAX_NAME_LENGTH: usize = 52;
    let spec = &value["spec"];
    if value["metadata"]["name"].as_str().is_some_and(|name| name.len() > MAX_NAME_LENGTH) {
        let detail = format!("must be no more than {MAX_NAME_LENGTH} characters");
        causes.push(Cause::invalid("metadata.name", &value["metadata"]["name"], detail));
    }
    let schedule = spec["schedule"].as_str().unwrap_or_default();
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if !schedule.is_empty() && !schedule.starts_with('@') && fields.len() != 5 {
        causes.push(Cause::invalid(
            "spec.schedule",
            &spec["schedule"],
            format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")),
        ));
    }
    if spec["timeZone"] == "" {
        let detail = "timeZone must be nil or non-empty string";
        causes.push(Cause::invalid("spec.timeZone", &spec["timeZone"], detail));
    } else if let Some(zone) = spec["timeZone"].as_str()
        && jiff::tz::TimeZone::get(zone).is_err()
    {
        causes.push(Cause::invalid("spec.timeZone", &spec["timeZone"], format!("unknown time zone {zone}")));
    }
    let known = ["Allow", "Forbid", "Replace"];
    checks::one_of(&spec["concurrencyPolicy"], "spec.concurrencyPolicy", &known, causes);
    for key in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        checks::not_negative(&spec[key], &format!("spec.{key}"), causes);
    }
}
