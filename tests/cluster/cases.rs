//! Sends the cases of `tests/cases/validation` to a real API server, which checks them by schema and webhooks.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    api::Answer,
    cluster::{ExclusiveCluster, collection, files},
    tools,
    wait::until,
};

/// The content of `expect.yaml`. README.md of `tests/cases` describes the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectations {
    #[serde(default = "both")]
    versions: Vec<String>,
    cases: BTreeMap<String, Expected>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    operation: Option<Operation>,
    old: Option<String>,
    code: Option<u16>,
    by: Option<By>,
    keyword: Option<String>,
    causes: Vec<Cause>,
    warnings: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum Operation {
    #[serde(rename = "CREATE")]
    Create,
    #[serde(rename = "UPDATE")]
    Update,
    #[serde(rename = "DELETE")]
    Delete,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum By {
    Schema,
    Webhook,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
struct Cause {
    reason: String,
    field: String,
}

fn both() -> Vec<String> {
    ["v1alpha1", "v1alpha2"].map(Into::into).to_vec()
}

#[test]
fn every_case_gets_its_verdict_its_code_and_its_causes() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    cluster.namespace("cases");
    let mut ran = 0;
    let mut wrong = Vec::new();
    for folder in files(&tools::root().join("tests/cases/validation")) {
        let folder = Path::new(&folder);
        let expectations: Expectations = read(&folder.join("expect.yaml"));
        for version in &expectations.versions {
            for (case, expected) in &expectations.cases {
                ran += 1;
                let answer = ask(&cluster, folder, version, case, expected);
                if let Err(difference) = compare(expected, &answer) {
                    let name = folder.file_name().unwrap_or_default().display();
                    wrong.push(format!("{name} {case} {version}: {difference}"));
                }
            }
        }
    }
    assert!(ran > 30, "only {ran} cases were found");
    assert!(wrong.is_empty(), "{} of {ran} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a manifest in an API version. Returns the object and the collection path of its kind.
fn manifest(folder: &Path, name: &str, version: &str) -> (Value, String) {
    let mut object: Value = read(&folder.join(format!("{name}.yaml")));
    object["apiVersion"] = json!(format!("serving.kserve.io/{version}"));
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = json!("cases");
    }
    let path = collection(&object);
    (object, path)
}

/// Sends the request of a case and returns the response. Leaves no object behind.
fn ask(cluster: &ExclusiveCluster, folder: &Path, version: &str, case: &str, expected: &Expected) -> Answer {
    let api = &cluster.server.api;
    let (mut object, path) = manifest(folder, case, version);
    let operation = expected.operation.unwrap_or(match expected.old {
        Some(_) => Operation::Update,
        None => Operation::Create,
    });
    let stored = match (operation, &expected.old) {
        (Operation::Create, _) => return api.post(&format!("{path}?dryRun=All"), &object),
        (_, Some(old)) => manifest(folder, old, version).0,
        (_, None) => object.clone(),
    };
    let one = format!("{path}/{}", stored["metadata"]["name"].as_str().unwrap());
    let created = api.post(&path, &stored);
    // A preset exists already and is kept.
    let ours = created.status != 409;
    assert!(created.status < 300 || !ours, "{one}: {}: {:#}", created.status, created.body);
    let dry = format!("{one}?dryRun=All");
    let answer = match operation {
        Operation::Delete => api.delete(&dry),
        Operation::Create | Operation::Update => until("an update that nobody gets in between of", || {
            let live = api.get(&one).ok();
            object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            Some(api.put(&dry, &object)).filter(|answer| answer.status != 409)
        }),
    };
    if ours {
        api.delete(&one).ok();
        until("the object is gone", || api.get(&one).status == 404);
    }
    answer
}

fn compare(expected: &Expected, answer: &Answer) -> Result<(), String> {
    let what = || format!("{} {}", answer.status, answer.body);
    if let Some(warnings) = &expected.warnings {
        let all = warnings.len() == answer.warnings.len()
            && warnings.iter().all(|text| answer.warnings.iter().any(|warning| warning.contains(text)));
        if !all {
            return Err(format!("expected the warnings {warnings:?}, got {:?}", answer.warnings));
        }
    }
    let Some(code) = expected.code else {
        // Creating a preset that exists fails with AlreadyExists, after all checks.
        let accepted = answer.status < 300 || answer.body["reason"] == "AlreadyExists";
        return if accepted { Ok(()) } else { Err(format!("expected it to be accepted, got {}", what())) };
    };
    if answer.status != code {
        return Err(format!("expected {code}, got {}", what()));
    }
    let webhook = answer.message().starts_with("admission webhook ");
    let by = if webhook { By::Webhook } else { By::Schema };
    if expected.by.is_some_and(|expected| expected != by) {
        return Err(format!("expected it to be refused by {:?}, got {}", expected.by, what()));
    }
    if let Some(keyword) = &expected.keyword
        && !answer.message().contains(keyword)
    {
        return Err(format!("expected {keyword:?} in the message, got {}", what()));
    }
    let mut wanted = expected.causes.clone();
    wanted.sort();
    let mut found: Vec<Cause> = answer
        .causes()
        .into_iter()
        .filter(|cause| cause.field != "<nil>")
        .map(|cause| Cause { reason: cause.reason, field: cause.field })
        .collect();
    found.sort();
    // A case without expected causes checks only acceptance or refusal.
    if !wanted.is_empty() && found != wanted {
        return Err(format!("expected the causes {wanted:?}, got {}", what()));
    }
    Ok(())
}
