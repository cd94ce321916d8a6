//! `fieldSelector=status.phase=Running`.

use serde_json::Value;

use crate::kinds::Resource;

/// Requirements that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    path: String,
    value: String,
    equal: bool,
}

/// Returns the fields that can select objects of a kind, besides name and namespace.
fn selectable(resource: &Resource) -> Vec<&str> {
    if let Some(custom) = resource.custom() {
        return custom.selectable.iter().map(String::as_str).collect();
    }
    resource.strategy().selectable().to_vec()
}

/// Whether kube-apiserver has its own list of field labels for this kind, and so its own error message.
fn has_own_labels(resource: &Resource) -> bool {
    resource.built_in().is_some() && !selectable(resource).is_empty()
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Parses a selector for objects of any kind.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        let mut parts = split(text);
        // kube-apiserver parses the requirements in this order, and reports the first error
        parts.sort_unstable();
        for part in parts {
            if part.is_empty() {
                continue;
            }
            let unreadable = || format!("invalid selector: '{text}'; can't understand '{part}'");
            let at = part.find(['=', '!']).ok_or_else(unreadable)?;
            let (path, rest) = part.split_at(at);
            let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
                (false, value)
            } else if let Some(value) = rest.strip_prefix("==") {
                (true, value)
            } else if let Some(value) = rest.strip_prefix('=') {
                (true, value)
            } else {
                return Err(unreadable());
            };
            let value = unescape(value)?;
            if path.is_empty() && value.is_empty() {
                // a requirement without a field selects everything
                continue;
            }
            requirements.push(Requirement { path: path.to_owned(), value, equal });
        }
        Ok(Self(requirements))
    }

    /// Checks whether objects of `resource` can be selected by these fields.
    pub(crate) fn check(&self, resource: &Resource) -> Result<(), String> {
        for Requirement { path, .. } in &self.0 {
            let path = path.as_str();
            let known = selectable(resource);
            let is_meta = path == "metadata.name"
                || path == "metadata.namespace" && (resource.namespaced || resource.custom().is_none());
            if !is_meta && !known.contains(&path) {
                return Err(if has_own_labels(resource) {
                    own_refusal(resource, path)
                } else if resource.custom().is_some() {
                    format!("field label not supported: {path}")
                } else {
                    format!(
                        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                        longboat_patch::gofmt::quote(path)
                    )
                });
            }
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the head of an object has these fields: their paths have one or two names.
    pub(crate) fn is_in_head(&self) -> bool {
        self.0.iter().all(|requirement| requirement.path.matches('.').count() <= 1)
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0
            .iter()
            .all(|requirement| (text_at(object, &requirement.path) == requirement.value) == requirement.equal)
    }
}

fn own_refusal(resource: &Resource, path: &str) -> String {
    match resource.plural.as_str() {
        "jobs" => format!("field label \"{path}\" not supported for {}", resource.kind),
        _ => format!("field label not supported: {path}"),
    }
}

/// Returns the value at a dotted path as selectors see it: a missing boolean is `false`, any other missing value is empty.
fn text_at(object: &Value, path: &str) -> String {
    // events are stored in their core form, and both versions select on the same fields
    let object_path = match path.strip_prefix("regarding.") {
        Some(rest) => format!("involvedObject.{rest}"),
        None if path == "reportingController" => "reportingComponent".to_owned(),
        None => path.to_owned(),
    };
    if object_path == "source" {
        let component = object["source"]["component"].as_str().unwrap_or_default();
        return if component.is_empty() {
            object["reportingComponent"].as_str().unwrap_or_default().to_owned()
        } else {
            component.to_owned()
        };
    }
    match object_path.split('.').fold(object, |at, part| &at[part]) {
        Value::String(text) => text.clone(),
        Value::Null if matches!(path, "spec.hostNetwork" | "spec.unschedulable") => "false".to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            '\\' | ',' | '=' if escaped => {
                out.push(c);
                escaped = false;
            }
            _ if escaped => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            _ => out.push(c),
        }
    }
    if escaped { Err("invalid field selector: invalid escape sequence: \\".to_owned()) } else { Ok(out) }
}
