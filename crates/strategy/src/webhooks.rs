//! Defaults and validation of webhook configurations.

use std::collections::BTreeSet;

use longboat_key::names::{self, NameRule};
use longboat_schema::{Program, check_client_config, check_expression};

use crate::{Field, checks::unique};

/// Variables of a match condition.
const VARIABLES: [&str; 5] = ["object", "oldObject", "request", "authorizer", "variables"];

/// Reports all validation errors of a webhook configuration.
pub(super) fn validate(config: &Field<'_>) {
    let mut names = BTreeSet::new();
    for hook in config.items("webhooks") {
        unique(&hook.at("name"), &mut names, hook.text("name"));
        webhook(&hook);
    }
}

fn webhook(hook: &Field<'_>) {
    let name = hook.at("name");
    name.required_name(NameRule::Subdomain);
    if names::is_subdomain(name.as_text()) && name.as_text().split('.').count() < 3 {
        name.invalid("should be a domain with at least three segments separated by dots");
    }
    let versions = hook.at("admissionReviewVersions");
    let given = hook.list("admissionReviewVersions");
    if given.is_empty() {
        versions.required("must specify one of v1, v1beta1");
    } else if !given.iter().any(|v| v == "v1" || v == "v1beta1") {
        versions.invalid("must include at least one of v1, v1beta1");
    }
    check_client_config(&hook.at("clientConfig"));
    for (key, known) in [
        ("failurePolicy", &["Fail", "Ignore"][..]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("sideEffects", &["None", "NoneOnDryRun"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
    ] {
        known_text(hook, key, known);
        if key == "sideEffects" && hook.get(key).is_none() {
            hook.at(key).required("must specify one of None, NoneOnDryRun");
        }
    }
    let timeout = hook.at("timeoutSeconds");
    if hook.get("timeoutSeconds").is_some() && !timeout.as_i64().is_some_and(|s| (1..=30).contains(&s)) {
        timeout.invalid("the timeout value must be between 1 and 30 seconds");
    }
    hook.items("rules").for_each(|rule| self::rule(&rule));
    conditions(hook);
}

/// Refuses anything but the known texts. The field may be missing.
fn known_text(owner: &Field<'_>, key: &str, known: &[&str]) {
    if owner.get(key).is_some_and(|value| !known.iter().any(|k| value == k)) {
        owner.at(key).unsupported(known);
    }
}

fn rule(rule: &Field<'_>) {
    for (key, what) in
        [("apiGroups", "API groups"), ("apiVersions", "API versions"), ("operations", "operations")]
    {
        let (field, values) = (rule.at(key), rule.list(key));
        if values.is_empty() {
            field.required("");
        } else if values.len() > 1 && values.iter().any(|v| v == "*") {
            field.invalid(format!("if '*' is present, must not specify other {what}"));
        } else if key == "operations" {
            let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
            for value in rule.items(key).filter(|value| !known.contains(&value.as_text())) {
                value.unsupported(&known);
            }
        }
    }
    let (field, resources) = (rule.at("resources"), rule.list("resources"));
    if resources.is_empty() {
        field.required("");
    } else if resources.len() > 1 && resources.iter().any(|r| r == "*/*") {
        field.invalid("if '*/*' is present, must not specify other resources");
    }
    known_text(rule, "scope", &["*", "Cluster", "Namespaced"]);
}

fn conditions(hook: &Field<'_>) {
    let mut names = BTreeSet::new();
    for condition in hook.items("matchConditions") {
        let (name, expression) = (condition.at("name"), condition.at("expression"));
        let source = expression.as_text();
        name.not_empty("");
        if !name.as_text().is_empty() {
            unique(&name, &mut names, name.as_text());
        }
        if source.trim().is_empty() {
            expression.required("");
        } else if let Err(why) =
            Program::compile(source).and_then(|program| check_expression(&program, source, &VARIABLES))
        {
            expression.invalid(format!("compilation failed: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use longboat_golden::{answer_causes, transcript};

    use super::validate;
    use crate::{causes_of, defaults::fill_in};

    #[test]
    fn configurations_are_defaulted_and_refused_as_recorded() {
        let scenario = transcript("wh-config.yaml");
        for (index, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
            if step["request"]["method"] != "POST" {
                continue;
            }
            let mut config = step["request"]["body"].clone();
            fill_in(&format!("admissionregistration.v1.{}", config["kind"].as_str().unwrap()), &mut config);
            let causes = causes_of(&config, "", validate).into_iter();
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
