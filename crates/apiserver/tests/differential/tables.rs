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
