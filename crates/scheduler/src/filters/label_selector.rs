//! `label-selector-filter`: keeps endpoints that a Kubernetes label selector matches.

use std::collections::BTreeMap;

use longboat_key::names::{label_value_problem, qualified_name_problem};

use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct LabelSelector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Requirement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let selector: LabelSelector = parameters.read()?;
    for (key, value) in &selector.match_labels {
        check(parameters, "matchLabels", key, [value])?;
    }
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let needs_values = matches!(requirement.operator, Operator::In | Operator::NotIn);
        parameters.require(
            needs_values != requirement.values.is_empty(),
            &format!("matchExpressions[{index}]"),
            format!(
                "key \"{}\": values must {}be given with operator {:?}",
                requirement.key,
                if needs_values { "" } else { "not " },
                requirement.operator
            ),
        )?;
        check(parameters, &format!("matchExpressions[{index}]"), &requirement.key, &requirement.values)?;
    }
    Ok(Plugin::filter(selector))
}

/// Refuses keys and values that no label has: nothing would match them.
pub(crate) fn check<'a>(
    parameters: &Parameters<'_>,
    field: &str,
    key: &str,
    values: impl IntoIterator<Item = &'a String>,
) -> Result<(), ConfigError> {
    if let Some(problem) = qualified_name_problem(key) {
        return Err(parameters.invalid(field, format!("key \"{key}\": {problem}")));
    }
    for value in values {
        if let Some(problem) = label_value_problem(value) {
            return Err(parameters.invalid(field, format!("value \"{value}\" of \"{key}\": {problem}")));
        }
    }
    Ok(())
}

impl LabelSelector {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| {
                let value = labels.get(&requirement.key);
                match requirement.operator {
                    Operator::In => value.is_some_and(|value| requirement.values.contains(value)),
                    Operator::NotIn => value.is_none_or(|value| !requirement.values.contains(value)),
                    Operator::Exists => value.is_some(),
                    Operator::DoesNotExist => value.is_none(),
                }
            })
    }
}

impl Filter for LabelSelector {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        candidates.retain(|&candidate| self.matches(&context.endpoint(candidate).labels));
    }
}
