//! Validation against what the reference's webhook refused.

use longboat_api::{defaulting, v1alpha2::LLMInferenceService, validation};
use serde_json::Value;

use crate::golden;

/// Name of the service that was refused, and reason and field of each cause; none where something else was refused.
fn refusal(text: &str) -> Option<(String, Vec<(String, String)>)> {
    let name = text.lines().find_map(|line| line.strip_prefix("request: POST LLMInferenceService "))?;
    if !text.contains("v1alpha2.validator") {
        return None;
    }
    let cause = |line: &str| {
        let rest = line.strip_prefix("cause: reason=")?;
        let (reason, rest) = rest.split_once(" field=")?;
        let (field, _) = rest.split_once(" message=")?;
        Some((reason.to_owned(), field.to_owned()))
    };
    let mut causes: Vec<_> = text.lines().filter_map(cause).collect();
    causes.sort();
    Some((name.to_owned(), causes))
}

#[test]
fn what_the_reference_refuses_is_refused_for_the_same_fields() {
    let Some(cases) = golden::folder("cases") else { return };
    let mut seen = 0;
    for case in std::fs::read_dir(cases).unwrap() {
        let case = case.unwrap().path();
        let Ok(text) = std::fs::read_to_string(case.join("expected/denied.txt")) else { continue };
        let Some((name, wanted)) = refusal(&text) else { continue };
        let inputs = std::fs::read_dir(case.join("input")).unwrap().map(|file| file.unwrap().path());
        for path in inputs {
            let mut object: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let ours = object["kind"] == "LLMInferenceService"
                && object["apiVersion"] == "serving.kserve.io/v1alpha2"
                && object["metadata"]["name"] == name.as_str();
            if !ours {
                continue;
            }
            defaulting::apply(&mut object).unwrap();
            let service: LLMInferenceService = serde_json::from_value(object).unwrap();
            let report = validation::validate_create(&service, validation::Rules::V1Alpha2);
            let mut found: Vec<_> =
                report.errors.iter().map(|c| (c.kind.reason().to_owned(), c.field.clone())).collect();
            found.sort();
            assert_eq!(found, wanted, "{}: {}", case.display(), name);
            seen += 1;
        }
    }
    assert!(seen > 10, "only {seen} refusals were found");
}
