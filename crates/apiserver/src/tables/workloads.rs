//! Tables for Deployments and other workloads.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    duration,
    printer::{
        AGE, NAME, Printer, age, boolean, containers, integer, labels, list, name, number, or, printer,
        selector, since, text, wide,
    },
};

pub(crate) const DEPLOYMENT: Printer = printer!(|o, now|
    NAME => name(o),
    text("Ready") => ready(o),
    text("Up-to-date") => number(&o["status"]["updatedReplicas"]),
    text("Available") => number(&o["status"]["availableReplicas"]),
    AGE => age(o, now),
    wide("Containers") => containers(pods(o), "name"),
    wide("Images") => containers(pods(o), "image"),
    wide("Selector") => selects(o),
);

pub(crate) const REPLICA_SET: Printer = printer!(|o, now|
    NAME => name(o),
    integer("Desired") => number(&o["spec"]["replicas"]),
    integer("Current") => number(&o["status"]["replicas"]),
    integer("Ready") => number(&o["status"]["readyReplicas"]),
    AGE => age(o, now),
    wide("Containers") => containers(pods(o), "name"),
    wide("Images") => containers(pods(o), "image"),
    wide("Selector") => selects(o),
);

/// Its selector is a map of labels.
pub(crate) const REPLICATION_CONTROLLER: Printer = Printer::new(REPLICA_SET.columns, |o, now| {
    let mut cells = (REPLICA_SET.cells)(o, now);
    cells.splice(cells.len() - 1.., [labels(&o["spec"]["selector"])]);
    cells
});

pub(crate) const STATEFUL_SET: Printer = printer!(|o, now|
    NAME => name(o),
    text("Ready") => ready(o),
    AGE => age(o, now),
    wide("Containers") => containers(pods(o), "name"),
    wide("Images") => containers(pods(o), "image"),
);

pub(crate) const CONTROLLER_REVISION: Printer = printer!(|o, now|
    NAME => name(o),
    text("Controller") => owner(o),
    text("Revision") => number(&o["revision"]),
    AGE => age(o, now),
);

fn owner(object: &Value) -> String {
    let owner = list(&object["metadata"]["ownerReferences"]).find(|r| r["controller"] == true);
    owner.map_or_else(
        || "<none>".to_owned(),
        |r| {
            let text = |key: &str| r[key].as_str().unwrap_or_default();
            let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
            format!("{}.{group}/{}", text("kind").to_lowercase(), text("name"))
        },
    )
}

fn ready(object: &Value) -> String {
    format!("{}/{}", number(&object["status"]["readyReplicas"]), number(&object["spec"]["replicas"]))
}

/// Returns the spec of the pods of a workload.
fn pods(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

pub(crate) const DAEMON_SET: Printer = printer!(|o, now|
    NAME => name(o),
    integer("Desired") => number(&o["status"]["desiredNumberScheduled"]),
    integer("Current") => number(&o["status"]["currentNumberScheduled"]),
    integer("Ready") => number(&o["status"]["numberReady"]),
    integer("Up-to-date") => number(&o["status"]["updatedNumberScheduled"]),
    integer("Available") => number(&o["status"]["numberAvailable"]),
    text("Node Selector") => labels(&pods(o)["nodeSelector"]),
    AGE => age(o, now),
    wide("Containers") => containers(pods(o), "name"),
    wide("Images") => containers(pods(o), "image"),
    wide("Selector") => selects(o),
);

pub(crate) const JOB: Printer = printer!(|o, now|
    NAME => name(o),
    text("Status") => phase(o),
    text("Completions") => completions(o),
    text("Duration") => time_since(&o["status"]["startTime"], &o["status"]["completionTime"], now),
    AGE => age(o, now),
    wide("Containers") => containers(pods(o), "name"),
    wide("Images") => containers(pods(o), "image"),
    wide("Selector") => selects(o),
);

fn phase(job: &Value) -> &'static str {
    let has =
        |kind: &str| list(&job["status"]["conditions"]).any(|c| c["type"] == kind && c["status"] == "True");
    let ends = job["metadata"]["deletionTimestamp"].is_string();
    let phases = [
        ("Complete", has("Complete")),
        ("Failed", has("Failed")),
        ("Terminating", ends),
        ("Suspended", has("Suspended")),
        ("FailureTarget", has("FailureTarget")),
        ("SuccessCriteriaMet", has("SuccessCriteriaMet")),
    ];
    phases.into_iter().find(|(_, is)| *is).map_or("Running", |(phase, _)| phase)
}

fn completions(job: &Value) -> String {
    let done = number(&job["status"]["succeeded"]);
    match job["spec"]["completions"].as_i64() {
        Some(wanted) => format!("{done}/{wanted}"),
        None => match number(&job["spec"]["parallelism"]) {
            parallel if parallel > 1 => format!("{done}/1 of {parallel}"),
            _ => format!("{done}/1"),
        },
    }
}

pub(crate) const CRON_JOB: Printer = printer!(|o, now|
    {
        let last = &o["status"]["lastScheduleTime"];
        let job = &o["spec"]["jobTemplate"]["spec"];
        let pods = &job["template"]["spec"];
    }
    NAME => name(o),
    text("Schedule") => or(&o["spec"]["schedule"], ""),
    text("Timezone") => or(&o["spec"]["timeZone"], "<none>"),
    boolean("Suspend") => if o["spec"]["suspend"] == true { "True" } else { "False" },
    integer("Active") => list(&o["status"]["active"]).count(),
    text("Last Schedule") => if last.is_string() { since(last, now) } else { "<none>".to_owned() },
    AGE => age(o, now),
    wide("Containers") => containers(pods, "name"),
    wide("Images") => containers(pods, "image"),
    wide("Selector") => selector(&job["selector"]),
);

pub(crate) const AUTOSCALER: Printer = printer!(|o, now|
    { let target = &o["spec"]["scaleTargetRef"]; }
    NAME => name(o),
    text("Reference") => format!(
        "{}/{}",
        target["kind"].as_str().unwrap_or_default(),
        target["name"].as_str().unwrap_or_default()
    ),
    text("Targets") => targets(o),
    text("MinPods") => or(&o["spec"]["minReplicas"], "<unset>"),
    text("MaxPods") => number(&o["spec"]["maxReplicas"]),
    text("Replicas") => number(&o["status"]["currentReplicas"]),
    AGE => age(o, now),
);

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
fn time_since(start: &Value, end: &Value, now: Timestamp) -> String {
    let parse = |value: &Value| value.as_str().and_then(|t| t.parse::<Timestamp>().ok());
    match (parse(start), parse(end)) {
        (None, _) => String::new(),
        (Some(start), None) => duration::short(now.as_second() - start.as_second()),
        (Some(start), Some(end)) => duration::short(end.as_second() - start.as_second()),
    }
}
