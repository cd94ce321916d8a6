//! Validates one object like an API server and the webhooks.

use longboat_admission::{Denial, Facts, Request, Subject, Version, mutate, validate};
use longboat_api::{
    newer::{self, NewerField},
    v1alpha2::GROUP,
};
use longboat_manifest::Document;
use longboat_strategy::{
    Cause,
    examine::{self, DecodeReport},
    kinds::Resource,
};
use serde_json::{Value, json};

use super::{hint, template, unknown};
use crate::finding::{Finding, ObjectName, Severity, Source};

/// An object that is being validated.
pub(crate) struct Examination<'a> {
    pub(crate) document: &'a Document,
    pub(crate) name: &'a ObjectName,
    pub(crate) resource: &'a Resource,
    pub(crate) facts: &'a Facts,
}

// === impl Examination ===

impl Examination<'_> {
    /// Returns everything that a server and the webhooks would report about the creation of `value`, and the resulting
    /// object. The object is `None` if it cannot be decoded. A server stops at the first step that fails; here every step
    /// that still makes sense runs.
    pub(crate) fn run(&self, mut value: Value) -> (Vec<Finding>, Option<Value>) {
        let DecodeReport { mistyped, unknown } = examine::decode(self.resource, &mut value);
        if let Some(why) = mistyped {
            return (self.mistyped(&why), None);
        }
        let mut findings: Vec<Finding> = unknown.iter().map(|path| self.unknown_field(path)).collect();
        let refusal = self.apply_defaults(&mut value, &mut findings);
        let has_types = self.judge(&value, &mut findings);
        match (refusal, self.subject_and_version()) {
            // A server stops if a webhook cannot decode the object. The schema's messages about that are better, so they stay.
            (Some(denial), Some((subject, version))) if denial.details.is_null() => {
                self.undecoded(&denial, subject, version, &mut findings);
            }
            (Some(denial), _) => self.denied(&denial, &mut findings),
            (None, Some((subject, version))) if has_types => {
                let answer = validate(subject, &create(version, &value), self.facts);
                if let Some(denial) = answer.denial {
                    self.denied(&denial, &mut findings);
                }
                findings.extend(answer.warnings.into_iter().map(|text| self.warning(text, Source::Webhook)));
            }
            (None, _) => {}
        }
        retain_first_causes(&mut findings);
        (findings, Some(value))
    }

    /// Returns what a server says about an object that it cannot decode, and the other fields with the same mistake.
    fn mistyped(&self, why: &str) -> Vec<Finding> {
        let resource = self.resource;
        let message = format!(
            "{} in version {:?} cannot be handled as a {}: {why}",
            resource.kind, resource.version, resource.kind
        );
        let mut paths = if why.contains("ObjectMeta.") {
            values_without_quotes(&self.document.object)
        } else if why.contains("ConfigMap.data ") {
            non_string_values(&self.document.object["data"], "data")
        } else {
            Vec::new()
        };
        // A server reports one of these, the first in its own order. The message names the type of its value.
        paths.sort_by_key(|(_, type_)| !why.contains(&format!("unmarshal {type_} ")));
        let mut paths = paths.into_iter().map(|(path, _)| path);
        let first = paths.next().unwrap_or_else(|| self.culprit(why));
        let error = |path: &str, message: String| {
            self.finding(Severity::Error, path, "BadRequest", message, Source::Schema, 400)
        };
        let others = paths.map(|path| error(&path, "must be of type string".to_owned()));
        std::iter::once(error(&first, message)).chain(others).collect()
    }

    fn unknown_field(&self, path: &str) -> Finding {
        let newer = newer::field(path).filter(|_| self.resource.group == GROUP);
        let message = newer.map_or_else(|| "unknown field".to_owned(), NewerField::reason);
        let hint = newer
            .map(|newer| newer.advice.to_owned())
            .or_else(|| hint::unknown_field(&self.resource.version, self.resource, path))
            .or_else(|| {
                let meant = unknown::meant(self.resource, self.document, path)?;
                Some(format!("did you mean `{meant}`?"))
            });
        let finding = self.finding(Severity::Error, path, "UnknownField", message, Source::Schema, 400);
        Finding { hint, ..finding }
    }

    /// Changes the object as the webhooks do. Returns why they refuse it, if they do.
    fn apply_defaults(&self, value: &mut Value, findings: &mut Vec<Finding>) -> Option<Denial> {
        let (subject, version) = self.subject_and_version()?;
        match mutate(subject, &create(version, value), self.facts) {
            Ok(mutation) => {
                let warnings = mutation.warnings.into_iter();
                findings.extend(warnings.map(|text| self.warning(text, Source::Webhook)));
                if let Some(mut changed) = mutation.object {
                    examine::complete(self.resource, &mut changed);
                    *value = changed;
                }
                None
            }
            Err(denial) => Some(denial),
        }
    }

    /// Adds what the API server says about the object. Returns whether all values have the right types.
    fn judge(&self, value: &Value, findings: &mut Vec<Finding>) -> bool {
        let judgement = examine::judge(self.resource, value);
        findings.extend(judgement.causes.iter().filter_map(|cause| self.cause(cause, Source::Schema)));
        findings.extend(judgement.rules.iter().filter_map(|cause| self.cause(cause, Source::Cel)));
        findings.extend(judgement.pods.iter().filter_map(|cause| {
            let finding = self.cause(cause, Source::Schema)?;
            let message = format!("{} (an API server would refuse the pods)", finding.message);
            Some(Finding { message, ..finding })
        }));
        findings.extend(judgement.warnings.into_iter().map(|text| self.warning(text, Source::Schema)));
        !judgement.causes.iter().any(|cause| cause.reason == "FieldValueTypeInvalid")
    }

    /// Returns the path of the first value that alone is a reason for this complaint of Go's decoder, which names no positions in
    /// lists, and no fields of some types.
    fn culprit(&self, why: &str) -> String {
        let fails = |mut alone| examine::decode(self.resource, &mut alone).mistyped.as_deref() == Some(why);
        narrowed(&self.document.object, String::new(), &fails)
    }

    /// Reports a value that a webhook cannot decode, at its place, unless the schema has reported it.
    fn undecoded(&self, denial: &Denial, subject: Subject, version: Version, findings: &mut Vec<Finding>) {
        let is_denied = |value| {
            let again = mutate(subject, &create(version, &value), self.facts);
            again.is_err_and(|other| other.message == denial.message)
        };
        let path = narrowed(&self.document.object, String::new(), &is_denied);
        let message = match self.document.value(&path) {
            Some(Value::Null) => "has no value: remove the item, or write its value".to_owned(),
            _ => denial.message.clone(),
        };
        if !findings.iter().any(|known| known.path == path) {
            let source = Source::Webhook;
            findings.push(self.finding(Severity::Error, &path, "BadRequest", message, source, denial.code));
        }
    }

    fn subject_and_version(&self) -> Option<(Subject, Version)> {
        let subject = Subject::of(&self.resource.group, &self.resource.plural)?;
        Some((subject, Version::of(&self.resource.version)?))
    }

    fn finding(
        &self,
        severity: Severity,
        path: &str,
        reason: &str,
        message: String,
        source: Source,
        code: u16,
    ) -> Finding {
        let hint = hint::of(self.resource, self.document, path, &message);
        let finding = Finding::at(self.document, self.name, path, source).error(reason, message);
        Finding { severity, code: (code > 0).then_some(code), hint, ..finding }
    }

    /// Converts a cause of a refusal to a finding. Returns `None` for remarks that concern no field.
    fn cause(&self, cause: &Cause, source: Source) -> Option<Finding> {
        if cause.message.contains("some validation rules were not checked") {
            return None;
        }
        let path = match cause.field.as_str() {
            // A cause without a field may name one in its message.
            "<nil>" => cause.message.split('"').nth(3).unwrap_or_default(),
            path => path.trim_start_matches('.'),
        };
        let code = match cause.reason {
            examine::TOO_LARGE => 413,
            "Forbidden" => 403,
            _ => 422,
        };
        Some(self.finding(Severity::Error, path, cause.reason, cause.message.clone(), source, code))
    }

    fn denied(&self, denial: &Denial, findings: &mut Vec<Finding>) {
        let causes = denial.details["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
        if causes.is_empty() {
            let reason = if denial.reason.is_empty() { "BadRequest" } else { denial.reason };
            let culprit = template::culprit(&self.document.object, &denial.message);
            let path = culprit.unwrap_or_else(|| field_in(&denial.message));
            let message = denial.message.clone();
            findings.push(self.finding(
                Severity::Error,
                &path,
                reason,
                message,
                Source::Webhook,
                denial.code,
            ));
        }
        for cause in causes {
            let text = |key: &str| cause[key].as_str().unwrap_or_default();
            // An object that cannot be decoded has one cause. The message of the denial is the one that users of the
            // reference know.
            let message = if denial.code == 400 { &denial.message } else { text("message") };
            let finding = self.finding(
                Severity::Error,
                text("field"),
                text("reason"),
                message.to_owned(),
                Source::Webhook,
                denial.code,
            );
            // Schema and webhook write keys with dots in different ways.
            let says_the_same = |known: &&mut Finding| {
                let is_there = (known.line, known.column) == (finding.line, finding.column);
                (is_there || known.path == finding.path) && known.reason == finding.reason
            };
            if denial.code == 400
                && let Some(known) = findings.iter_mut().find(says_the_same)
            {
                // The schema reported the same problem, and has advice for it.
                *known = Finding { hint: known.hint.take(), ..finding };
                continue;
            }
            if findings.iter().any(|known| known.path == finding.path && known.message == finding.message) {
                continue;
            }
            match findings
                .iter_mut()
                .filter(|rule| is_rule_of(rule, &finding))
                .max_by_key(|rule| rule.path.len())
            {
                // A server stops at the rule of the schema, so its words stay. The webhook knows the exact field.
                Some(rule) => (rule.line, rule.column) = (finding.line, finding.column),
                None => findings.push(finding),
            }
        }
    }

    /// Converts a warning to a finding. If the warning's text starts with a field, the field becomes the path.
    fn warning(&self, text: String, source: Source) -> Finding {
        let path = field_in(&text);
        let after = text.strip_prefix(&path).filter(|_| !path.is_empty());
        let text = after.map(|rest| rest.trim_start_matches(':').trim_start().to_owned()).unwrap_or(text);
        self.finding(Severity::Warning, &path, "Warning", text, source, 0)
    }
}

/// Whether a finding of a CEL rule is about the same mistake as a finding of the webhook: it is at the same field or above, and
/// the webhook's message has its first clause, possibly with values in parentheses.
fn is_rule_of(rule: &Finding, of_webhook: &Finding) -> bool {
    let below = of_webhook.path.strip_prefix(&rule.path);
    if rule.source != Source::Cel || !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
        return false;
    }
    let mut parts = of_webhook.message.split(" (");
    let first = parts.next().unwrap_or_default().to_owned();
    let without_values =
        parts.fold(first, |text, part| text + part.split_once(')').map_or(part, |(_, after)| after));
    let cel_message = rule.message.rsplit_once("\": ").map_or(&*rule.message, |(_, cel_message)| cel_message);
    cel_message.split(';').next().is_some_and(|clause| without_values.contains(clause))
}

/// Returns the path of the innermost value that still fails when the objects and lists around it have nothing else.
fn narrowed(value: &Value, path: String, fails: &dyn Fn(Value) -> bool) -> String {
    match value {
        Value::Object(fields) if !fails(json!({})) => {
            for (key, inner) in fields {
                let alone = |inner: Value| fails(json!({ key: inner }));
                if alone(inner.clone()) {
                    // Keys of maps, such as labels, may have dots, so they stand in brackets.
                    let is_field = key.starts_with(|c: char| c.is_ascii_lowercase())
                        && key.chars().all(|c| c.is_ascii_alphanumeric());
                    let path = match (is_field, path.as_str()) {
                        (true, "") => key.clone(),
                        (true, _) => format!("{path}.{key}"),
                        (false, _) => format!("{path}[{key}]"),
                    };
                    return narrowed(inner, path, &alone);
                }
            }
        }
        Value::Array(items) if !fails(json!([])) => {
            for (at, inner) in items.iter().enumerate() {
                let alone = |inner: Value| fails(json!([inner]));
                if alone(inner.clone()) {
                    return narrowed(inner, format!("{path}[{at}]"), &alone);
                }
            }
        }
        _ => {}
    }
    path
}

/// Returns the paths of annotations and labels whose values are no strings: YAML takes `true` and `1` for other types. Each with
/// its type.
fn values_without_quotes(object: &Value) -> Vec<(String, &'static str)> {
    let of = |map: &str| non_string_values(&object["metadata"][map], &format!("metadata.{map}"));
    [of("annotations"), of("labels")].concat()
}

/// Returns the paths and types of the values of a map that are no strings.
fn non_string_values(map: &Value, path: &str) -> Vec<(String, &'static str)> {
    let entries = map.as_object().into_iter().flatten().filter_map(|(key, value)| {
        let type_ = match value {
            Value::String(_) | Value::Null => return None,
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        Some((format!("{path}[{key}]"), type_))
    });
    entries.collect()
}

/// Removes findings that only follow from others.
fn retain_first_causes(findings: &mut Vec<Finding>) {
    let paths = |findings: &[Finding], is_cause: &dyn Fn(&str) -> bool| -> Vec<String> {
        let causes = findings.iter().filter(|finding| is_cause(&finding.message));
        causes.map(|finding| finding.path.clone()).collect()
    };
    // A server says three times that a quantity has the wrong type.
    let is_quantity = |text: &str| text.contains(hint::MISTYPED_QUANTITY);
    let quantities = paths(findings, &is_quantity);
    findings.retain(|finding| !quantities.contains(&finding.path) || is_quantity(&finding.message));
    // The entries of an object that should be a list are no fields.
    let objects = paths(findings, &|text| {
        text.contains("cannot unmarshal object") || text.contains("must be of type array")
    });
    let is_entry = |path: &str| {
        objects.iter().any(|object| path.strip_prefix(object).is_some_and(|rest| rest.starts_with('.')))
    };
    findings.retain(|finding| finding.reason != "UnknownField" || !is_entry(&finding.path));
}

fn create(version: Version, object: &Value) -> Request<'_> {
    Request { version, operation: "CREATE", object: Some(object), old: None }
}

/// Returns the path of the field that a text names, or an empty string. Go's decoder puts a type name before it.
fn field_in(text: &str) -> String {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ',' | ';');
    let path = |word: &str| {
        let word = word.trim_end_matches([':', '.']);
        let roots = ["spec.", "metadata.", "data."].into_iter();
        let starts = roots.filter_map(|root| word.find(root)).min()?;
        let is_path = starts == 0 || word[..starts].ends_with('.');
        (is_path && !word.contains("://")).then(|| word[starts..].to_owned())
    };
    text.split(ends).find_map(path).unwrap_or_default()
}
