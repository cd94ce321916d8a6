//! Validation of webhook configurations, compared with kube-apiserver's.

use longboat_golden::{answer_causes, transcript};
use serde_json::{Value, json};

use super::config::{default, selects, validate};

#[test]
fn configurations_are_defaulted_and_refused_as_recorded() {
    let scenario = transcript("wh-config.yaml");
    for (index, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
        if step["request"]["method"] != "POST" {
            continue;
        }
        let mut config = step["request"]["body"].clone();
        default(&mut config);
        let causes = validate(&config).into_iter();
        let mut causes: Vec<_> =
            causes.map(|cause| (cause.field, cause.reason.to_owned(), cause.message)).collect();
        causes.sort();
        assert_eq!(causes, answer_causes(&step["response"]), "step {index}");
        if step["response"]["code"] == 201 {
            assert_eq!(config["webhooks"], step["response"]["body"]["webhooks"], "step {index}");
        }
    }
}

#[test]
fn selectors_match_labels() {
    let labels = json!({"a": "1", "b": "2"});
    let labels = labels.as_object().unwrap();
    let matches = |selector: Value| selects(&selector, labels);
    assert!(matches(json!({})));
    assert!(matches(json!({"matchLabels": {"a": "1"}})));
    assert!(!matches(json!({"matchLabels": {"a": "2"}})));
    assert!(matches(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "3"]}]})));
    assert!(!matches(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]})));
    assert!(matches(json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]})));
    assert!(!matches(json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]})));
}
