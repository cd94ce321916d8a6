//! Jobs and CronJobs.

use serde_json::{Value, json};

use super::{
    Strategy, apps, checks, job_spec,
    names::{self, NameRule},
    pod, schedule,
    selector::selects,
};
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

    fn complete_on_read(&self, value: &mut Value) {
        if *self == Self::Job && value["metadata"]["labels"].is_null() {
            value["metadata"]["labels"] = value["spec"]["template"]["metadata"]["labels"].clone();
        }
    }

    fn template(&self, value: &Value) -> Option<(&'static str, Value)> {
        let spec = &value["spec"];
        Some(match self {
            Self::Job => ("spec.template", spec["template"].clone()),
            Self::CronJob => {
                ("spec.jobTemplate.spec.template", spec["jobTemplate"]["spec"]["template"].clone())
            }
        })
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        let spec = object.at("spec");
        if *self == Self::CronJob {
            spec.at("schedule").not_empty("");
            validate_schedule(object, live);
            let job = spec.at("jobTemplate.spec");
            validate_pods(&job);
            if job["selector"].is_object() {
                job.at("selector").invalid("`selector` will be auto-generated");
            }
            if job["manualSelector"] == true {
                job.at("manualSelector").unsupported(&["nil", "false"]);
            }
            return;
        }
        validate_pods(&spec);
        selector(&spec);
        if let Some(live) = live {
            // an update validates the spec twice and reports each error twice
            object.repeat();
            immutable(&spec, live);
        }
        validate_job_labels(object, live);
        validate_host_name(object);
    }

    fn warnings(&self, value: &Value, live: Option<&Value>) -> Vec<String> {
        let spec = &value["spec"];
        if live.is_some_and(|live| live["spec"] == *spec) {
            return Vec::new();
        }
        let mut warnings = match live {
            Some(_) => Vec::new(),
            None => Vec::from_iter(checks::host_warning(value, "Pod names and hostnames")),
        };
        warnings.extend(match self {
            Self::Job => pod::warnings(&spec["template"], "spec.template."),
            Self::CronJob => {
                let template = &spec["jobTemplate"]["spec"]["template"];
                pod::warnings(template, "spec.jobTemplate.spec.template.")
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
    // a job without labels gets the labels of its template, if there are any
    let shares =
        value["metadata"]["labels"].is_null() && value["spec"]["template"]["metadata"]["labels"].is_object();
    if value["spec"]["manualSelector"] == true {
        if shares {
            value["metadata"]["labels"] = value["spec"]["template"]["metadata"]["labels"].clone();
        }
        return;
    }
    let uid = value["metadata"]["uid"].clone();
    let labels = job_labels(value).map(|(key, content)| (key, Value::from(content)));
    for (key, content) in labels {
        value["spec"]["template"]["metadata"]["labels"][key] = content;
    }
    if shares {
        value["metadata"]["labels"] = value["spec"]["template"]["metadata"]["labels"].clone();
    }
    // A selector that the user has set is refused later, unless it is this one.
    value["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"] = uid;
}

/// Validates the labels that connect a Job to its pods, unless the user has set the selector.
fn validate_job_labels(job: &Field<'_>, live: Option<&Value>) {
    let spec = job.at("spec");
    if spec["manualSelector"] == true || !spec["selector"].is_object() {
        return;
    }
    let labels = spec.at("template.metadata.labels");
    // Jobs of older servers have only the labels without a prefix.
    let has = |live: &Value, key: &str| live["spec"]["template"]["metadata"]["labels"][key].is_string();
    let needs = |key: &str| !key.contains('/') || live.is_none_or(|live| has(live, key));
    let expected: Vec<_> = job_labels(job).into_iter().filter(|(key, _)| needs(key)).collect();
    let labelled: Value =
        expected.iter().map(|(key, label)| ((*key).to_owned(), Value::from(*label))).collect();
    let selector = spec.at("selector");
    if !selects(&selector, &labelled) {
        selector.invalid("`selector` not auto-generated");
    }
    for (key, wanted) in expected {
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

/// Validates the spec of a Job except for its selector.
fn validate_pods(spec: &Field<'_>) {
    job_spec::validate(spec);
    apps::validate_template(&spec.at("template"), &POLICIES);
    let policy = spec.at("template.spec.restartPolicy");
    if spec["podFailurePolicy"].is_object() && policy.as_text() == "OnFailure" {
        policy.invalid("only \"Never\" is supported when podFailurePolicy is specified");
    }
}

/// Refuses changes of what pods of the Job that exist may depend on.
fn immutable(spec: &Field<'_>, job: &Value) {
    let live = &job["spec"];
    let completions = spec.at("completions");
    if spec["completionMode"] == "Indexed" {
        // An indexed Job may have more or fewer indexes if all of them run at once.
        let differs = *completions.value != live["completions"] && !completions.is_null();
        if differs && *completions.value != spec["parallelism"] {
            completions.invalid(format!("can only be modified in tandem with {}.parallelism", spec.path));
        }
    } else if *completions.value != live["completions"] {
        completions.invalid(checks::IMMUTABLE);
    }
    for key in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        if spec[key] != live[key] {
            spec.at(key).invalid(checks::IMMUTABLE);
        }
    }
    immutable_template(spec, job);
}

/// Refuses a change of the template. A suspended Job that never started may get labels and another place for its pods.
fn immutable_template(spec: &Field<'_>, job: &Value) {
    let may_move = job["spec"]["suspend"] == true && job["status"]["startTime"].is_null();
    let fixed = |template: &Value| {
        let mut template = template.clone();
        if may_move {
            for key in ["labels", "annotations"] {
                template["metadata"][key] = Value::Null;
            }
            for key in ["nodeSelector", "tolerations", "schedulingGates"] {
                template["spec"][key] = Value::Null;
            }
            template["spec"]["affinity"]["nodeAffinity"] = Value::Null;
        }
        template
    };
    if fixed(&spec["template"]) != fixed(&job["spec"]["template"]) {
        spec.at("template").invalid(checks::IMMUTABLE);
    }
}

/// The pods of an indexed Job have its name and an index as their host names.
fn validate_host_name(job: &Field<'_>) {
    let completions = job["spec"]["completions"].as_i64().unwrap_or(0);
    if job["spec"]["completionMode"] != "Indexed" || completions <= 0 {
        return;
    }
    let name = job.at("metadata.name");
    let host = format!("{}-{}", name.as_text(), completions - 1);
    if !names::problems(NameRule::Label, &host).is_empty() {
        name.invalid(format!("will not able to create pod with invalid DNS label: {host}"));
    }
}

/// Validates the selector: it must exist and match the labels of the template.
fn selector(spec: &Field<'_>) {
    let (selector, labels) = (spec.at("selector"), spec.at("template.metadata.labels"));
    if !selector.is_object() {
        selector.required("");
    }
    let before = selector.count();
    checks::selector(&selector);
    if selector.count() > before {
        return;
    }
    if !selects(&selector, &labels) {
        labels.invalid("`selector` does not match template `labels`");
    }
}

/// Validates the fields of a CronJob's schedule, and the length of its name.
fn validate_schedule(object: &Field<'_>, live: Option<&Value>) {
    /// The longest name: the controller appends eleven characters for each Job.
    const MAX_NAME_LENGTH: usize = 52;
    let (name, spec) = (object.at("metadata.name"), object.at("spec"));
    if name.as_text().len() > MAX_NAME_LENGTH {
        name.invalid(format!("must be no more than {MAX_NAME_LENGTH} characters"));
    }
    let schedule = spec.at("schedule");
    if !schedule.as_text().is_empty()
        && let Err(why) = schedule::check(schedule.as_text())
    {
        schedule.invalid(why);
    }
    let had_zone = live.is_some_and(|live| live["spec"]["schedule"].as_str().is_some_and(has_zone));
    match (has_zone(schedule.as_text()), had_zone) {
        (true, false) => {
            schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
        }
        (true, true) if !spec["timeZone"].is_null() => {
            schedule.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
        _ => {}
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

/// Whether a schedule has a time zone in front.
fn has_zone(schedule: &str) -> bool {
    schedule.contains("TZ")
}
