//! What `validate` says about manifests.

mod absent;
mod attachment;
mod configs;
mod fields;
mod metrics;
mod models;
mod objects;
mod own_routes;
mod picker;
mod pods;
mod settings;

use longboat_manifest::parse_all;

use super::{Report, validate};
use crate::{
    Settings,
    finding::{Finding, Source},
};

fn report(text: &str) -> Report {
    let mut report = validate(parse_all("f.yaml", text), &Settings::default());
    // Most pickers here have no route, and most model servers no device, which is no topic of these tests.
    report.findings.retain(|finding| !["PoolWithoutRoute", "NoDevice"].contains(&&*finding.reason));
    report
}

/// Returns the findings as `line:column severity path reason`, followed by the hint if there is one.
fn finding_lines(text: &str) -> Vec<String> {
    let show = |finding: &Finding| {
        let (line, column) = (finding.line.unwrap_or_default(), finding.column.unwrap_or_default());
        let hint = finding.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{line}:{column} {} {} {}{hint}", finding.severity.name(), finding.path, finding.reason)
    };
    report(text).findings.iter().map(show).collect()
}

/// Returns a service with these lines below the model in its spec. The first one is line 7.
fn service(lines: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: one}}\nspec:\n  model:\n    uri: hf://org/model\n{lines}"
    )
}

#[test]
fn a_sound_service_is_checked_and_nothing_is_said() {
    let found = report(&service("  router: {route: {}, gateway: {}, scheduler: {}}\n"));
    assert_eq!(found.findings, []);
    assert_eq!(found.checked.len(), 1);
    assert!(found.checked[0].1 && found.is_clean());
}

/// Returns the findings as `line severity path: message`.
fn finding_messages(text: &str) -> Vec<String> {
    let show = |finding: &Finding| {
        let Finding { severity, path, message, .. } = finding;
        format!("{} {} {path}: {message}", finding.line.unwrap_or_default(), severity.name())
    };
    report(text).findings.iter().map(show).collect()
}
