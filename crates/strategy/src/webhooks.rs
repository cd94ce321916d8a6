//! Defaults and validation of webhook configurations.

use std::collections::HashSet;

use serde_json::Value;

use longboat_key::names::{self, NameRule};
use longboat_schema::{Cause, Program, check_client_config, check_expression};

use super::checks;

/// Variables of a match condition.
const VARIABLES: [&str; 5] = ["object", "oldObject", "request", "authorizer", "variables"];

/// Returns all validation errors of a webhook configuration.
pub(super) fn validate(config: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut names = HashSet::new();
    for (index, hook) in list(&config["webhooks"]).iter().enumerate() {
        let at = format!("webhooks[{index}]");
        let name = text(&hook["name"]);
        if !names.insert(name) {
            causes.push(Cause::duplicate(format!("{at}.name"), &hook["name"]));
        }
        webhook(hook, name, &at, &mut causes);
    }
    causes
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn webhook(hook: &Value, name: &str, at: &str, causes: &mut Vec<Cause>) {
    if name.is_empty() {
        causes.push(Cause::required(format!("{at}.name"), ""));
    } else if !names::is_subdomain(name) {
        checks::name(NameRule::Subdomain, &hook["name"], &format!("{at}.name"), causes);
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        causes.push(Cause::invalid(format!("{at}.name"), &hook["name"], detail));
    }
    let versions = list(&hook["admissionReviewVersions"]);
    let field = format!("{at}.admissionReviewVersions");
    if versions.is_empty() {
        causes.push(Cause::required(field, "must specify one of v1, v1beta1"));
    } else if !versions.iter().any(|v| v == "v1" || v == "v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        causes.push(Cause::invalid(field, &hook["admissionReviewVersions"], detail));
    }
    check_client_config(&hook["clientConfig"], &format!("{at}.clientConfig"), causes);
    for (key, known) in [
        ("failurePolicy", &["Fail", "Ignore"][..]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("sideEffects", &["None", "NoneOnDryRun"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
    ] {
        match hook.get(key) {
            Some(value) if !known.iter().any(|k| value == k) => {
                causes.push(Cause::unsupported(format!("{at}.{key}"), value, known));
            }
            None if key == "sideEffects" => {
                causes.push(Cause::required(format!("{at}.{key}"), "must specify one of None, NoneOnDryRun"));
            }
            _ => {}
        }
    }
    if let Some(seconds) = hook.get("timeoutSeconds")
        && !seconds.as_i64().is_some_and(|s| (1..=30).contains(&s))
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        causes.push(Cause::invalid(format!("{at}.timeoutSeconds"), seconds, detail));
    }
    for (index, rule) in list(&hook["rules"]).iter().enumerate() {
        self::rule(rule, &format!("{at}.rules[{index}]"), causes);
    }
    conditions(&hook["matchConditions"], &format!("{at}.matchConditions"), causes);
}

fn rule(rule: &Value, at: &str, causes: &mut Vec<Cause>) {
    for (key, what) in
        [("apiGroups", "API groups"), ("apiVersions", "API versions"), ("operations", "operations")]
    {
        let values = list(&rule[key]);
        let field = format!("{at}.{key}");
        if values.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if values.len() > 1 && values.iter().any(|v| v == "*") {
            let detail = format!("if '*' is present, must not specify other {what}");
            causes.push(Cause::invalid(field, &rule[key], detail));
        } else if key == "operations" {
            for (index, value) in values.iter().enumerate() {
                let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
                if !known.iter().any(|k| value == k) {
                    causes.push(Cause::unsupported(format!("{field}[{index}]"), value, &known));
                }
            }
        }
    }
    let resources = list(&rule["resources"]);
    if resources.is_empty() {
        causes.push(Cause::required(format!("{at}.resources"), ""));
    } else if resources.len() > 1 && resources.iter().any(|r| r == "*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        causes.push(Cause::invalid(format!("{at}.resources"), &rule["resources"], detail));
    }
    if let Some(scope) = rule.get("scope") {
        let known = ["*", "Cluster", "Namespaced"];
        if !known.iter().any(|k| scope == k) {
            causes.push(Cause::unsupported(format!("{at}.scope"), scope, &known));
        }
    }
}

fn conditions(conditions: &Value, at: &str, causes: &mut Vec<Cause>) {
    let mut names = HashSet::new();
    for (index, condition) in list(conditions).iter().enumerate() {
        let name = text(&condition["name"]);
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}[{index}].name"), ""));
        } else if !names.insert(name) {
            causes.push(Cause::duplicate(format!("{at}[{index}].name"), &condition["name"]));
        }
        let source = text(&condition["expression"]);
        let field = format!("{at}[{index}].expression");
        if source.trim().is_empty() {
            causes.push(Cause::required(field, ""));
        } else if let Err(why) =
            Program::compile(source).and_then(|program| check_expression(&program, source, &VARIABLES))
        {
            let detail = format!("compilation failed: {why}");
            causes.push(Cause::invalid(field, &condition["expression"], detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use longboat_golden::{answer_causes, transcript};

    use super::validate;
    use crate::defaults::fill_in;

    #[test]
    fn configurations_are_defaulted_and_refused_as_recorded() {
        let scenario = transcript("wh-config.yaml");
        for (index, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
            if step["request"]["method"] != "POST" {
                continue;
            }
            let mut config = step["request"]["body"].clone();
            fill_in(&format!("admissionregistration.v1.{}", config["kind"].as_str().unwrap()), &mut config);
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
}
