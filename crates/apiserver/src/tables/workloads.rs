//! Tables for Deployments and other workloads.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, NAME, Printer, age, boolean, containers, duration, integer, labels, list, name, number, or,
    selector, since, text, wide,
};

pub(crate) const DEPLOYMENT: Printer = Printer::new(
    &[
        NAME,
        text("Ready"),
        text("Up-to-date"),
        text("Available"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    |o, now| {
        let mut cells = vec![
            name(o),
            ready(o),
            Value::from(number(&o["status"]["updatedReplicas"])),
            Value::from(number(&o["status"]["availableReplicas"])),
            age(o, now),
        ];
        cells.extend(template(o));
        cells.push(selects(o));
        cells
    },
);

pub(crate) const REPLICA_SET: Printer = Printer::new(REPLICAS, |o, now| replicas(o, now, selects(o)));

/// Its selector is a map of labels.
pub(crate) const REPLICATION_CONTROLLER: Printer =
    Printer::new(REPLICAS, |o, now| replicas(o, now, labels(&o["spec"]["selector"])));

/// The columns of the kinds that keep a number of pods.
const REPLICAS: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn replicas(object: &Value, now: Timestamp, selector: Value) -> Vec<Value> {
    let mut cells = vec![
        name(object),
        Value::from(number(&object["spec"]["replicas"])),
        Value::from(number(&object["status"]["replicas"])),
        Value::from(number(&object["status"]["readyReplicas"])),
        age(object, now),
    ];
    cells.extend(template(object));
    cells.push(selector);
    cells
}

pub(crate) const STATEFUL_SET: Printer =
    Printer::new(&[NAME, text("Ready"), AGE, wide("Containers"), wide("Images")], |o, now| {
        let mut cells = vec![name(o), ready(o), age(o, now)];
        cells.extend(template(o));
        cells
    });

pub(crate) const CONTROLLER_REVISION: Printer =
    Printer::new(&[NAME, text("Controller"), text("Revision"), AGE], |o, now| {
        let owner = list(&o["metadata"]["ownerReferences"]).find(|r| r["controller"] == true);
        let owner = owner.map_or_else(
            || "<none>".to_owned(),
            |r| {
                let text = |key: &str| r[key].as_str().unwrap_or_default();
                let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
                format!("{}.{group}/{}", text("kind").to_lowercase(), text("name"))
            },
        );
        vec![name(o), Value::from(owner), Value::from(number(&o["revision"])), age(o, now)]
    });

fn ready(object: &Value) -> Value {
    Value::from(format!(
        "{}/{}",
        number(&object["status"]["readyReplicas"]),
        number(&object["spec"]["replicas"])
    ))
}

fn template(object: &Value) -> [Value; 2] {
    let spec = &object["spec"]["template"]["spec"];
    [containers(spec, "name"), containers(spec, "image")]
}

pub(crate) const DAEMON_SET: Printer = Printer::new(
    &[
        NAME,
        integer("Desired"),
        integer("Current"),
        integer("Ready"),
        integer("Up-to-date"),
        integer("Available"),
        text("Node Selector"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    daemons,
);

fn daemons(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = |key: &str| Value::from(number(&object["status"][key]));
    let mut cells = vec![
        name(object),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(&object["spec"]["template"]["spec"]["nodeSelector"]),
        age(object, now),
    ];
    cells.extend(template(object));
    cells.push(selects(object));
    cells
}

pub(crate) const JOB: Printer = Printer::new(
    &[
        NAME,
        text("Status"),
        text("Completions"),
        text("Duration"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    job,
);

fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let has =
        |kind: &str| list(&job["status"]["conditions"]).any(|c| c["type"] == kind && c["status"] == "True");
    let status = if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if job["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let done = number(&job["status"]["succeeded"]);
    let completions = match job["spec"]["completions"].as_i64() {
        Some(wanted) => format!("{done}/{wanted}"),
        None => match number(&job["spec"]["parallelism"]) {
            parallel if parallel > 1 => format!("{done}/1 of {parallel}"),
            _ => format!("{done}/1"),
        },
    };
    let mut cells = vec![
        name(job),
        Value::from(status),
        Value::from(completions),
        Value::from(lasted(&job["status"]["startTime"], &job["status"]["completionTime"], now)),
        age(job, now),
    ];
    cells.extend(template(job));
    cells.push(selects(job));
    cells
}

pub(crate) const CRON_JOB: Printer = Printer::new(
    &[
        NAME,
        text("Schedule"),
        text("Timezone"),
        boolean("Suspend"),
        integer("Active"),
        text("Last Schedule"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cron,
);

fn cron(object: &Value, now: Timestamp) -> Vec<Value> {
    let last = if object["status"]["lastScheduleTime"].is_string() {
        since(&object["status"]["lastScheduleTime"], now)
    } else {
        "<none>".to_owned()
    };
    let spec = &object["spec"]["jobTemplate"]["spec"];
    vec![
        name(object),
        or(&object["spec"]["schedule"], ""),
        or(&object["spec"]["timeZone"], "<none>"),
        Value::from(if object["spec"]["suspend"] == true { "True" } else { "False" }),
        Value::from(list(&object["status"]["active"]).count()),
        Value::from(last),
        age(object, now),
        containers(&spec["template"]["spec"], "name"),
        containers(&spec["template"]["spec"], "image"),
        selector(&spec["selector"]),
    ]
}

pub(crate) const AUTOSCALER: Printer = Printer::new(
    &[NAME, text("Reference"), text("Targets"), text("MinPods"), text("MaxPods"), text("Replicas"), AGE],
    autoscaler,
);

fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let target = &object["spec"]["scaleTargetRef"];
    let reference = format!(
        "{}/{}",
        target["kind"].as_str().unwrap_or_default(),
        target["name"].as_str().unwrap_or_default()
    );
    vec![
        name(object),
        Value::from(reference),
        Value::from(targets(object)),
        or(&object["spec"]["minReplicas"], "<unset>"),
        Value::from(number(&object["spec"]["maxReplicas"])),
        Value::from(number(&object["status"]["currentReplicas"])),
        age(object, now),
    ]
}

fn targets(object: &Value) -> String {
    let current = &object["status"]["currentMetrics"];
    let all: Vec<String> = list(&object["spec"]["metrics"])
        .enumerate()
        .map(|(index, metric)| {
            let (key, field) = match metric["type"].as_str() {
                Some("Pods") => ("pods", "metric"),
                Some("Object") => ("object", "metric"),
                Some("External") => ("external", "metric"),
                Some("ContainerResource") => ("containerResource", "name"),
                _ => ("resource", "name"),
            };
            let target = &metric[key]["target"];
            let seen = &current[index][key]["current"];
            let name = if field == "name" {
                format!("{}: ", metric[key]["name"].as_str().unwrap_or_default())
            } else {
                String::new()
            };
            if let Some(wanted) = target["averageUtilization"].as_i64() {
                let now =
                    seen["averageUtilization"].as_i64().map_or("<unknown>".to_owned(), |n| format!("{n}%"));
                return format!("{name}{now}/{wanted}%");
            }
            let (kind, suffix) = if target["averageValue"].is_string() {
                ("averageValue", if field == "metric" && key != "pods" { " (avg)" } else { "" })
            } else {
                ("value", "")
            };
            format!(
                "{name}{}/{}{suffix}",
                seen[kind].as_str().unwrap_or("<unknown>"),
                target[kind].as_str().unwrap_or("<auto>")
            )
        })
        .collect();
    match all.len() {
        0 => "<none>".to_owned(),
        1 | 2 => all.join(", "),
        more => format!("{} + {} more...", all[..2].join(", "), more - 2),
    }
}

/// Returns the content of the selector column.
fn selects(object: &Value) -> Value {
    selector(&object["spec"]["selector"])
}

/// Returns how long something lasted, or has lasted so far.
fn lasted(start: &Value, end: &Value, now: Timestamp) -> String {
    let parse = |value: &Value| value.as_str().and_then(|t| t.parse::<Timestamp>().ok());
    match (parse(start), parse(end)) {
        (None, _) => String::new(),
        (Some(start), None) => duration::short(now.as_second() - start.as_second()),
        (Some(start), Some(end)) => duration::short(end.as_second() - start.as_second()),
    }
}
