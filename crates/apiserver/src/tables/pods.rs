//! Tables for pods: readiness, and the status in one word.

use std::collections::BTreeSet;

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
    let ip = list(&pod["status"]["podIPs"]).next().map_or(&pod["status"]["podIP"], |first| &first["ip"]);
    let summary = Summary::of(pod);
    vec![
        name(pod),
        Value::from(format!("{}/{}", summary.ready, summary.total)),
        Value::from(summary.status),
        Value::from(summary.restarts.text(now)),
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

/// What the columns about containers show.
struct Summary<'a> {
    /// Containers and sidecars.
    total: usize,
    ready: usize,
    restarts: Restarts<'a>,
    /// `Running`, `CrashLoopBackOff`, `Init:0/1`, `Terminating`, …
    status: String,
}

/// How often containers restarted, and when the last one did.
#[derive(Default, Clone, Copy)]
struct Restarts<'a> {
    count: i64,
    last: Option<&'a str>,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, container: &'a Value) {
        self.count += number(&container["restartCount"]);
        self.last = self.last.max(container["lastState"]["terminated"]["finishedAt"].as_str());
    }

    fn text(self, now: Timestamp) -> String {
        match self.last {
            Some(ended) if self.count > 0 => {
                format!("{} ({} ago)", self.count, since(&Value::from(ended), now))
            }
            _ => self.count.to_string(),
        }
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the reason of a container that has ended.
fn end(ended: &Value) -> String {
    let (reason, signal) = (text_of(&ended["reason"]), number(&ended["signal"]));
    match (reason, signal) {
        ("", 0) => format!("ExitCode:{}", number(&ended["exitCode"])),
        ("", _) => format!("Signal:{signal}"),
        _ => reason.to_owned(),
    }
}

impl<'a> Summary<'a> {
    fn of(pod: &'a Value) -> Self {
        let status = &pod["status"];
        let holds = |type_: &str| {
            list(&status["conditions"])
                .any(|condition| condition["type"] == type_ && condition["status"] == "True")
        };
        let is_gated = list(&status["conditions"])
            .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
        let reason = text_of(&status["reason"]);
        let mut word = match reason {
            _ if is_gated => "SchedulingGated".to_owned(),
            "" => text_of(&status["phase"]).to_owned(),
            reason => reason.to_owned(),
        };
        let inits = || list(&pod["spec"]["initContainers"]);
        let sidecars: BTreeSet<&str> = inits()
            .filter(|container| container["restartPolicy"] == "Always")
            .filter_map(|container| container["name"].as_str())
            .collect();
        let total = list(&pod["spec"]["containers"]).count() + sidecars.len();
        let mut ready = 0;
        let (mut restarts, mut of_sidecars) = (Restarts::default(), Restarts::default());
        let mut is_initializing = false;
        for (index, container) in list(&status["initContainerStatuses"]).enumerate() {
            restarts.add(container);
            let is_sidecar = sidecars.contains(text_of(&container["name"]));
            if is_sidecar {
                of_sidecars.add(container);
            }
            let ended = &container["state"]["terminated"];
            if ended.is_object() && number(&ended["exitCode"]) == 0 {
                continue;
            }
            if is_sidecar && container["started"] == true {
                ready += usize::from(container["ready"] == true);
                continue;
            }
            word = match text_of(&container["state"]["waiting"]["reason"]) {
                _ if ended.is_object() => format!("Init:{}", end(ended)),
                "" | "PodInitializing" => format!("Init:{index}/{}", inits().count()),
                waiting => format!("Init:{waiting}"),
            };
            is_initializing = true;
            break;
        }
        if !is_initializing || holds("Initialized") {
            restarts = of_sidecars;
            let mut is_running = false;
            let statuses: Vec<&Value> = list(&status["containerStatuses"]).collect();
            for container in statuses.into_iter().rev() {
                restarts.add(container);
                let state = &container["state"];
                let waiting = text_of(&state["waiting"]["reason"]);
                if !waiting.is_empty() {
                    waiting.clone_into(&mut word);
                } else if state["terminated"].is_object() {
                    word = end(&state["terminated"]);
                } else if container["ready"] == true && state["running"].is_object() {
                    is_running = true;
                    ready += 1;
                }
            }
            if word == "Completed" && is_running {
                if holds("Ready") { "Running" } else { "NotReady" }.clone_into(&mut word);
            }
        }
        if pod["metadata"]["deletionTimestamp"].is_string() {
            if reason == "NodeLost" {
                "Unknown".clone_into(&mut word);
            } else if finished(pod).is_none() {
                "Terminating".clone_into(&mut word);
            }
        }
        Self { total, ready, restarts, status: word }
    }
}
