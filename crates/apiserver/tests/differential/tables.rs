//! Compares what kubectl reads about kinds: their names and verbs, the columns that `kubectl get` prints, and the row of one
//! object per kind.

use std::{net::IpAddr, sync::LazyLock};

use regex::Regex;
use serde_json::{Value, json};

use crate::{api::Api, requests};

/// An age or a time in a cell.
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d+s$|^\d{4}-\d\d-\d\dT").unwrap());

const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Returns the kinds and objects whose table differs between the embedded server and a real one.
pub(crate) fn differences(real: &Api, ours: &Api) -> Vec<String> {
    let mut pages: Vec<String> = listable(ours);
    let pods = "/api/v1/namespaces/diff/pods";
    for (index, status) in pod_statuses().iter().enumerate() {
        let name = format!("status-{index}");
        let pod = json!({"metadata": {"name": name}, "spec": {
            "initContainers": [{"name": "init", "image": "i"}, {"name": "side", "image": "i", "restartPolicy": "Always"}],
            "containers": [{"name": "main", "image": "i"}, {"name": "beside", "image": "i"}]}});
        pages.push(format!("{pods}/{name}"));
        for api in [real, ours] {
            api.post(pods, &pod).ok();
            api.merge(&format!("{pods}/{name}/status"), &json!({"status": status})).ok();
        }
    }
    for (path, object) in requests::bases().into_iter().chain(further()) {
        for api in [real, ours] {
            api.post(path, &object).ok();
        }
        pages.push(format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default()));
    }
    let mut found = Vec::new();
    for page in pages {
        let [expected, printed] = [real, ours].map(|api| api.get_as(&page, AS_TABLE).ok());
        let one = page.contains("/diff/");
        for (part, of) in [("columns", columns as fn(&Value) -> Value), ("cells", cells)] {
            let [expected, printed] = [of(&expected), of(&printed)];
            // each server fills lists with objects of its own
            if (one || part == "columns") && expected != printed {
                found.push(format!("{page} {part}\n  real {expected}\n  ours {printed}"));
            }
        }
    }
    found
}

/// Statuses of pods whose containers and init containers are in many states.
fn pod_statuses() -> Vec<Value> {
    let container = |name: &str, restarts: i32, ready: bool, state: &Value| {
        json!({"name": name, "image": "i", "imageID": "", "restartCount": restarts, "ready": ready, "started": ready,
            "state": state})
    };
    let running = json!({"running": {}});
    let ended = |code: i32, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
    let killed = json!({"terminated": {"exitCode": 137, "signal": 9}});
    let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
    let of = |phase: &str, condition: (&str, &str), [init, side, main, beside]: [(i32, bool, Value); 4]| {
        let one =
            |name, (restarts, ready, state): (i32, bool, Value)| container(name, restarts, ready, &state);
        json!({"phase": phase, "conditions": [{"type": condition.0, "status": condition.1}],
            "initContainerStatuses": [one("init", init), one("side", side)],
            "containerStatuses": [one("main", main), one("beside", beside)]})
    };
    let done = || (1, true, ended(0, "Completed"));
    let created = || (0, false, waiting("PodInitializing"));
    let up = || (3, true, running.clone());
    vec![
        of(
            "Pending",
            ("Initialized", "False"),
            [(2, false, waiting("CrashLoopBackOff")), created(), created(), created()],
        ),
        of(
            "Pending",
            ("Initialized", "False"),
            [(2, false, running.clone()), created(), created(), created()],
        ),
        of("Pending", ("Initialized", "False"), [done(), (1, false, running.clone()), created(), created()]),
        of("Pending", ("Initialized", "False"), [done(), (1, false, killed.clone()), created(), created()]),
        of("Running", ("Initialized", "True"), [done(), up(), up(), up()]),
        of("Running", ("Initialized", "True"), [done(), (4, false, waiting("CrashLoopBackOff")), up(), up()]),
        of("Running", ("Ready", "True"), [done(), up(), done(), up()]),
        of("Running", ("Ready", "False"), [done(), up(), done(), up()]),
        of(
            "Running",
            ("Ready", "False"),
            [done(), up(), (5, false, waiting("ErrImagePull")), (0, false, killed)],
        ),
        of("Succeeded", ("Initialized", "True"), [done(), (0, false, ended(143, "Error")), done(), done()]),
        of("Failed", ("Initialized", "False"), [(0, false, ended(3, "")), created(), created(), created()]),
        json!({"phase": "Pending", "reason": "Why", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
    ]
}

/// Objects of kinds that the random requests do not cover.
fn further() -> Vec<(&'static str, Value)> {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]});
    let template = json!({"metadata": {"labels": {"a": "b", "c": "d"}}, "spec": pod});
    let always = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"x": "y"}}});
    vec![
        ("/api/v1/namespaces/diff/podtemplates", json!({"metadata": {"name": "t"}, "template": template})),
        (
            "/api/v1/namespaces/diff/limitranges",
            json!({"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1000"}}]}}),
        ),
        (
            "/api/v1/namespaces/diff/replicationcontrollers",
            json!({"metadata": {"name": "rc"}, "spec": {"replicas": 2, "selector": {"a": "b"}, "template": always}}),
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/diff/resourceclaims",
            json!({"metadata": {"name": "rc"}, "spec": {"devices": {"requests": [{"name": "gpu",
                "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}}]}}}),
        ),
        (
            "/api/v1/namespaces/diff/resourcequotas",
            json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "100"}}}),
        ),
    ]
}

/// Returns the resources whose discovery entry differs between the embedded server and a real one. The embedded server may
/// serve fewer resources.
pub(crate) fn described(real: &Api, ours: &Api) -> Vec<String> {
    let mut found = Vec::new();
    let theirs = group_versions(real);
    for ours in group_versions(ours) {
        let theirs = theirs.iter().find(|list| list["groupVersion"] == ours["groupVersion"]).unwrap();
        for resource in ours["resources"].as_array().into_iter().flatten() {
            let known = theirs["resources"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|other| other["name"] == resource["name"]);
            let mut known = known.cloned().unwrap_or_default();
            let mut resource = resource.clone();
            for entry in [&mut known, &mut resource] {
                if let Some(entry) = entry.as_object_mut() {
                    entry.remove("storageVersionHash");
                }
            }
            // The embedded server does not forward requests to the servers of APIServices, so APIServices are read-only.
            if resource["name"].as_str().is_some_and(|name| name.starts_with("apiservices")) {
                resource["verbs"] = known["verbs"].clone();
            }
            if known != resource {
                found.push(format!("{}\n  real {known}\n  ours {resource}", ours["groupVersion"]));
            }
        }
    }
    found
}

/// Returns the resources of each group and version, from discovery.
fn group_versions(api: &Api) -> Vec<Value> {
    let mut lists = vec![api.get("/api/v1").ok()];
    let groups = api.get("/apis").ok();
    for group in groups["groups"].as_array().into_iter().flatten() {
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap_or_default();
        lists.push(api.get(&format!("/apis/{version}")).ok());
    }
    lists
}

/// Returns the paths of all built-in kinds that can be listed.
fn listable(api: &Api) -> Vec<String> {
    let path = |list: &Value, resource: &Value| {
        let version = list["groupVersion"].as_str()?;
        let listed = resource["verbs"].as_array()?.iter().any(|verb| verb == "list");
        let root = if version.contains('/') { "apis" } else { "api" };
        listed.then(|| format!("/{root}/{version}/{}", resource["name"].as_str().unwrap_or_default()))
    };
    group_versions(api)
        .iter()
        .flat_map(|list| {
            list["resources"].as_array().into_iter().flatten().filter_map(|resource| path(list, resource))
        })
        .collect()
}

/// Returns the columns without their descriptions, which clients do not show.
fn columns(table: &Value) -> Value {
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    columns
        .map(|column| json!([column["name"], column["type"], column["format"], column["priority"]]))
        .collect()
}

/// Returns the cells of the first row, without times, addresses and uids.
fn cells(table: &Value) -> Value {
    let cells = table["rows"][0]["cells"].as_array().into_iter().flatten();
    cells
        .map(|cell| match cell.as_str() {
            Some(text) if AGE.is_match(text) || text.parse::<IpAddr>().is_ok() || text.contains("-uid=") => {
                Value::from("…")
            }
            _ => cell.clone(),
        })
        .collect()
}
