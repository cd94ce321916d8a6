//! Our own cases (`tests/cases/README.md` has the format).

use std::{collections::BTreeMap, path::Path};

use longboat_admission::Facts;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    folder::{entries, name, repository, yaml},
    refusal::Refusal,
    server::{Reply, Server},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectations {
    #[serde(default = "both")]
    versions: Vec<String>,
    cases: BTreeMap<String, Expected>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    operation: Option<String>,
    old: Option<String>,
    code: Option<u16>,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    keyword: String,
    #[serde(default)]
    causes: Vec<Cause>,
    warnings: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cause {
    reason: String,
    field: String,
}

fn both() -> Vec<String> {
    vec!["v1alpha1".to_owned(), "v1alpha2".to_owned()]
}

fn manifest(rule: &Path, stem: &str, version: &str) -> Value {
    let mut object = yaml(&rule.join(format!("{stem}.yaml")));
    object["apiVersion"] = json!(format!("serving.kserve.io/{version}"));
    object
}

async fn ask(
    server: &Server,
    rule: &Path,
    stem: &str,
    version: &str,
    expected: &Expected,
    namespace: &str,
) -> Reply {
    let object = manifest(rule, stem, version);
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or(namespace);
    if let Some(old) = &expected.old {
        let old = manifest(rule, old, version);
        let reply = server.create(namespace, &old).await;
        if reply.code != 201 {
            return reply;
        }
    }
    let operation =
        expected.operation.as_deref().unwrap_or(if expected.old.is_some() { "UPDATE" } else { "CREATE" });
    let reply = match operation {
        "CREATE" => server.create(namespace, &object).await,
        "UPDATE" => server.replace(namespace, &object).await,
        _ => {
            server.create(namespace, &object).await;
            server.delete(namespace, &object).await
        }
    };
    server.delete(namespace, &object).await;
    reply
}

/// Returns the difference from what is expected, if any.
fn difference(reply: &Reply, expected: &Expected) -> Option<String> {
    if let Some(wanted) = &expected.warnings {
        let found = wanted.iter().zip(&reply.warnings).all(|(wanted, found)| found.contains(wanted));
        if !found || wanted.len() != reply.warnings.len() {
            return Some(format!("warnings {:?} instead of {wanted:?}", reply.warnings));
        }
    }
    let Some(code) = expected.code else {
        return (reply.code >= 300).then(|| format!("refused: {}", reply.body["message"]));
    };
    let refusal = Refusal::of(&reply.body);
    let mut wanted: Vec<_> =
        expected.causes.iter().map(|cause| (cause.reason.as_str(), cause.field.as_str())).collect();
    wanted.sort_unstable();
    let found: Vec<_> = refusal
        .causes
        .iter()
        .map(|[reason, field, _]| (reason.as_str(), field.as_str()))
        .filter(|(_, field)| *field != "<nil>")
        .collect();
    let same = reply.code == code && found == wanted && refusal.message.contains(&expected.keyword);
    (!same).then(|| format!("{} {found:?} {:?}", reply.code, refusal.message))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_accepts_and_refuses_what_its_cases_say() {
    let server = Server::start(Facts::default()).await;
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (i, rule) in entries(&repository().join("tests/cases/validation")).iter().enumerate() {
        let text = std::fs::read_to_string(rule.join("expect.yaml")).unwrap();
        let expectations: Expectations =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", rule.display()));
        for version in &expectations.versions {
            let namespace = format!("rule-{i}-{version}");
            server.namespace(&namespace).await;
            for (stem, expected) in &expectations.cases {
                let reply = ask(&server, rule, stem, version, expected, &namespace).await;
                if let Some(difference) = difference(&reply, expected) {
                    wrong.push(format!("{} {stem} {version}: {difference}", name(rule)));
                }
                assert!(expected.code.is_none() || expected.by.is_some(), "{} {stem} lacks `by`", name(rule));
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "only {seen} cases were found");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}
