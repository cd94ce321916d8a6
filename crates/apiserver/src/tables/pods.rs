//! Tables for pods: readiness, and the status in one word.

use jiff::Timestamp;
use serde_json::Value;

use super::printer::{AGE, NAME, Printer, age, list, name, number, or, since, text, wide};

pub(crate) const POD: Printer = Printer {
    columns: &[
        NAME,
        text("Ready"),
        text("Status"),
        text("Restarts"),
        AGE,
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ],
    cells,
    finished: Some(finished),
};

/// Returns the reason why a pod has ended, with which watches of tables mark its row.
fn finished(pod: &Value) -> Option<(&'static str, &'static str)> {
    match pod["status"]["phase"].as_str() {
        Some("Succeeded") => Some(("Succeeded", "The pod has completed successfully.")),
        Some("Failed") => Some(("Failed", "The pod failed.")),
        _ => None,
    }
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let total = list(&pod["spec"]["containers"]).count();
    let statuses = &pod["status"]["containerStatuses"];
    let ready = list(statuses).filter(|s| s["ready"] == true && s["state"]["running"].is_object()).count();
    let ip = list(&pod["status"]["podIPs"]).next().map_or(&pod["status"]["podIP"], |first| &first["ip"]);
    vec![
        name(pod),
        Value::from(format!("{ready}/{total}")),
        Value::from(word(pod)),
        Value::from(restarts(pod, now)),
        age(pod, now),
        or(ip, "<none>"),
        or(&pod["spec"]["nodeName"], "<none>"),
        or(&pod["status"]["nominatedNodeName"], "<none>"),
        gates(pod),
    ]
}

fn gates(pod: &Value) -> Value {
    let gates: Vec<&Value> = list(&pod["spec"]["readinessGates"]).collect();
    if gates.is_empty() {
        return Value::from("<none>");
    }
    let met = gates
        .iter()
        .filter(|gate| {
            list(&pod["status"]["conditions"])
                .any(|c| c["type"] == gate["conditionType"] && c["status"] == "True")
        })
        .count();
    Value::from(format!("{met}/{}", gates.len()))
}

fn restarts(pod: &Value, now: Timestamp) -> String {
    let statuses = ["containerStatuses"].into_iter().flat_map(|key| list(&pod["status"][key]));
    let mut count = 0;
    let mut last: Option<&str> = None;
    for status in statuses {
        count += number(&status["restartCount"]);
        if let Some(ended) = status["lastState"]["terminated"]["finishedAt"].as_str() {
            last = last.max(Some(ended));
        }
    }
    match last {
        Some(ended) if count > 0 => format!("{count} ({} ago)", since(&Value::from(ended), now)),
        _ => count.to_string(),
    }
}

/// Returns the status: `Running`, `CrashLoopBackOff`, `Init:0/1`, `Terminating`, …
fn word(pod: &Value) -> String {
    let status = &pod["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut word = text(&status["reason"]);
    if word.is_empty() {
        word = text(&status["phase"]);
    }
    for condition in list(&status["conditions"]) {
        if condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated" {
            "SchedulingGated".clone_into(&mut word);
        }
    }
    let total = list(&pod["spec"]["initContainers"]).count();
    let mut initialising = false;
    for (index, container) in list(&status["initContainerStatuses"]).enumerate() {
        let ended = &container["state"]["terminated"];
        let waiting = text(&container["state"]["waiting"]["reason"]);
        let sidecar = list(&pod["spec"]["initContainers"])
            .any(|c| c["name"] == container["name"] && c["restartPolicy"] == "Always");
        if ended.is_object() && number(&ended["exitCode"]) == 0 {
            continue;
        }
        if sidecar && container["started"] == true {
            continue;
        }
        word = if ended.is_object() {
            let reason = text(&ended["reason"]);
            if reason.is_empty() {
                format!("Init:ExitCode:{}", number(&ended["exitCode"]))
            } else {
                format!("Init:{reason}")
            }
        } else if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{total}")
        };
        initialising = true;
        break;
    }
    if !initialising {
        let mut running = false;
        let statuses: Vec<&Value> = list(&status["containerStatuses"]).collect();
        for container in statuses.iter().rev() {
            let state = &container["state"];
            let waiting = text(&state["waiting"]["reason"]);
            let ended = &state["terminated"];
            if !waiting.is_empty() {
                word = waiting;
            } else if ended.is_object() {
                let reason = text(&ended["reason"]);
                word = if reason.is_empty() {
                    format!("ExitCode:{}", number(&ended["exitCode"]))
                } else {
                    reason
                };
            } else if container["ready"] == true && state["running"].is_object() {
                running = true;
            }
        }
        if word == "Completed" && running {
            let ready = list(&status["conditions"]).any(|c| c["type"] == "Ready" && c["status"] == "True");
            if ready { "Running" } else { "NotReady" }.clone_into(&mut word);
        }
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        if status["reason"] == "NodeLost" { "Unknown" } else { "Terminating" }.clone_into(&mut word);
    }
    word
}
