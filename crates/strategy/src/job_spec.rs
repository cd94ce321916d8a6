//! Validation of the spec of a Job, except for its selector and its template.

use std::collections::BTreeSet;

use serde_json::Value;

use super::checks;
use crate::Field;

const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
/// From this number of completions on, other numbers have lower limits if failures are counted for each index.
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_OF_MANY: i64 = 10_000;
const MAX_MANAGER_BYTES: usize = 63;
/// The most rules of a policy, or conditions of a rule.
const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;

/// Validates the spec of a Job except for its selector and its template.
pub(super) fn validate(spec: &Field<'_>) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        checks::not_negative(&spec.at(key));
    }
    let [per_index, most_failed] = ["backoffLimitPerIndex", "maxFailedIndexes"].map(|key| spec.at(key));
    if !most_failed.is_null() && per_index.is_null() {
        per_index.required("when maxFailedIndexes is specified");
    }
    let manager = spec.at("managedBy");
    if !manager.is_null() {
        checks::domain_prefixed_path(&manager);
        if manager.as_text().len() > MAX_MANAGER_BYTES {
            manager.too_long(MAX_MANAGER_BYTES);
        }
    }
    let mode = spec.at("completionMode");
    mode.one_of(&["NonIndexed", "Indexed"]);
    let is_indexed = mode.as_text() == "Indexed";
    if is_indexed {
        indexed(spec);
    } else if mode.is_null() || mode.as_text() == "NonIndexed" {
        for field in [&per_index, &most_failed].into_iter().filter(|field| !field.is_null()) {
            field.invalid("requires indexed completion mode");
        }
    }
    let (failures, replacement) = (spec.at("podFailurePolicy"), spec.at("podReplacementPolicy"));
    if failures.is_object() {
        failures.at("rules").at_most(MAX_RULES);
        failures.items("rules").for_each(|rule| failure_rule(spec, &rule));
        replacement.one_of(&["Failed"]);
    } else {
        replacement.one_of(&["Failed", "TerminatingOrFailed"]);
    }
    let success = spec.at("successPolicy");
    if success.is_object() && !is_indexed {
        // The error shows the value as Go does.
        let rule = |rule: &Value| {
            let (indexes, count) = (&rule["succeededIndexes"], &rule["succeededCount"]);
            format!("{{\"SucceededIndexes\":{indexes},\"SucceededCount\":{count}}}")
        };
        let rules: Vec<String> = success.list("rules").iter().map(rule).collect();
        let rules = if rules.is_empty() { "null".to_owned() } else { format!("[{}]", rules.join(",")) };
        success.invalid_as(format!("{{\"Rules\":{rules}}}"), "requires indexed completion mode");
    } else if success.is_object() {
        let rules = success.at("rules");
        if success.list("rules").is_empty() {
            rules.required("at least one rules must be specified when the successPolicy is specified");
        }
        rules.at_most(MAX_RULES);
        let completions = spec["completions"].as_i64().unwrap_or(0);
        success.items("rules").for_each(|rule| success_rule(&rule, completions));
    }
}

fn indexed(spec: &Field<'_>) {
    let [completions, parallelism, most_failed] =
        ["completions", "parallelism", "maxFailedIndexes"].map(|key| spec.at(key));
    if completions.is_null() {
        completions.required("when completion mode is Indexed");
    }
    let at_most = |field: &Field<'_>, most: i64, when: &str| {
        if field.as_i64().is_some_and(|number| number > most) {
            field.invalid(format!("must be less than or equal to {most}{when}"));
        }
    };
    at_most(&parallelism, MAX_PARALLELISM, " when completion mode is Indexed");
    if let (Some(failed), Some(all)) = (most_failed.as_i64(), completions.as_i64())
        && failed > all
    {
        most_failed.invalid("must be less than or equal to completions");
    }
    at_most(&most_failed, MAX_FAILED_INDEXES, "");
    let is_large = completions.as_i64().is_some_and(|number| number > MANY_COMPLETIONS);
    if !is_large || spec["backoffLimitPerIndex"].is_null() {
        return;
    }
    if most_failed.is_null() {
        most_failed.required(format!("must be specified when completions is above {MANY_COMPLETIONS}"));
    }
    let when =
        format!(" when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
    at_most(&parallelism, MAX_OF_MANY, &when);
    at_most(&most_failed, MAX_OF_MANY, &when);
}

fn failure_rule(spec: &Field<'_>, rule: &Field<'_>) {
    let action = rule.text_at("action");
    match action.as_text() {
        "" => action.required("valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"),
        "FailIndex" if spec["backoffLimitPerIndex"].is_null() => {
            action.invalid("requires the backoffLimitPerIndex to be set");
        }
        _ => action.one_of(&["Count", "FailIndex", "FailJob", "Ignore"]),
    }
    let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
    if codes.is_object() {
        exit_codes(spec, &codes);
    }
    conditions.at_most(MAX_RULES);
    for condition in rule.items("onPodConditions") {
        let kind = condition.text_at("type");
        checks::qualified(&kind, kind.as_text());
        let status = condition.text_at("status");
        match status.as_text() {
            "" => status.required("valid values: [\"False\" \"True\" \"Unknown\"]"),
            _ => status.one_of(&["False", "True", "Unknown"]),
        }
    }
    let detail = match (codes.is_object(), !rule.list("onPodConditions").is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    rule.invalid_without_value(detail);
}

fn exit_codes(spec: &Field<'_>, codes: &Field<'_>) {
    let operator = codes.text_at("operator");
    match operator.as_text() {
        "" => operator.required("valid values: [\"In\" \"NotIn\"]"),
        _ => operator.one_of(&["In", "NotIn"]),
    }
    let name = codes.at("containerName");
    let pod = &spec["template"]["spec"];
    let lists = [&pod["containers"], &pod["initContainers"]].into_iter().filter_map(Value::as_array);
    if !name.is_null() && !lists.flatten().any(|container| container["name"] == *name.value) {
        name.invalid("must be one of the container or initContainer names in the pod template");
    }
    let values = codes.at("values");
    let given: Vec<i64> = codes.list("values").iter().filter_map(Value::as_i64).collect();
    if given.is_empty() {
        values.invalid_as(if values.is_null() { "null" } else { "[]" }, "at least one value is required");
    }
    values.at_most(MAX_EXIT_CODES);
    let mut seen = BTreeSet::new();
    for value in codes.items("values") {
        let number = value.as_i64().unwrap_or(0);
        if operator.as_text() == "In" && number == 0 {
            value.invalid("must not be 0 for the In operator");
        }
        checks::unique(&value, &mut seen, number);
    }
    if !given.is_sorted() {
        values.invalid("must be ordered");
    }
}

fn success_rule(rule: &Field<'_>, completions: i64) {
    let (indexes, count) = (rule.at("succeededIndexes"), rule.at("succeededCount"));
    if indexes.is_null() && count.is_null() {
        rule.required("at least one of succeededCount or succeededIndexes must be specified");
    }
    let total = count_indexes(indexes.as_text(), completions).unwrap_or_else(|why| {
        indexes.invalid(format!("error parsing succeededIndexes: {why}"));
        0
    });
    checks::not_negative(&count);
    let Some(number) = count.as_i64() else { return };
    if number > completions {
        let what = "(the number of specified completions)";
        count.invalid(format!("must be less than or equal to {completions} {what}"));
    }
    if !indexes.is_null() && number > total {
        let what = "(the number of indexes in the specified succeededIndexes field)";
        count.invalid(format!("must be less than or equal to {total} {what}"));
    }
}

/// Counts the indexes of a text such as `0-2,5`.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None);
    for range in text.split(',').filter(|_| !text.is_empty()) {
        let parts: Vec<&str> = range.split('-').collect();
        if parts.len() > 2 {
            return Err(format!(
                "the fragment {range:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let index = |part: &str| match part.parse::<i64>() {
            Err(_) => Err(format!("cannot convert string to integer for index: {part:?}")),
            Ok(index) if index >= completions => Err(format!("too large index: {part:?}")),
            Ok(index) => Ok(index),
        };
        let not_increasing = |previous: i64, current: i64| {
            format!("non-increasing order, previous: {previous}, current: {current}")
        };
        let first = index(parts[0])?;
        let end = parts.get(1).map_or(Ok(first), |part| index(part))?;
        if parts.len() == 2 && first >= end {
            return Err(not_increasing(first, end));
        }
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(not_increasing(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}
