//! The scale subresource of custom resources: where an object has its replicas, and what the values there may be.

use longboat_schema::Cause;
use serde_json::Value;

/// Paths of the scale subresource, without the leading dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// `spec.replicas`
    pub spec_replicas: String,
    /// `status.replicas`
    pub status_replicas: String,
    /// `status.selector`
    pub selector: Option<String>,
}

// === impl ScalePaths ===

impl ScalePaths {
    /// Reads `subresources.scale` of a version of a definition.
    pub(super) fn of(value: &Value) -> Option<Self> {
        value.as_object()?;
        let path = |key: &str| value[key].as_str().map(|p| p.trim_start_matches('.').to_owned());
        Some(Self {
            spec_replicas: path("specReplicasPath")?,
            status_replicas: path("statusReplicasPath")?,
            selector: path("labelSelectorPath").filter(|p| !p.is_empty()),
        })
    }

    /// Checks the values at the paths. The API server reads them without the schema, so they need the right type in the JSON
    /// of the request: 2.0 is no integer.
    pub fn validate(&self, object: &Value) -> Vec<Cause> {
        let mut causes: Vec<Cause> = replicas(object, &self.spec_replicas).into_iter().collect();
        causes.extend(self.validate_status(object));
        causes
    }

    /// Like [`Self::validate`], for the values in the status.
    pub(crate) fn validate_status(&self, object: &Value) -> Vec<Cause> {
        let mut causes: Vec<Cause> = replicas(object, &self.status_replicas).into_iter().collect();
        if let Some(path) = &self.selector {
            let why = match at(object, path) {
                Err(why) => Some(why),
                Ok(Some(value)) if !value.is_string() => Some(mistyped(path, value, "string")),
                Ok(_) => None,
            };
            causes.extend(why.map(|why| Cause::invalid(format!(".{path}"), &Value::from(""), why)));
        }
        causes
    }

    /// Calls `change`, which may turn floats without a fraction into integers, and restores those at the paths, so that
    /// validation sees them.
    pub(crate) fn keeping_floats<T>(&self, object: &mut Value, change: impl FnOnce(&mut Value) -> T) -> T {
        let floats = [&self.spec_replicas, &self.status_replicas].map(|path| {
            let pointer = format!("/{}", path.replace('.', "/"));
            let float = object.pointer(&pointer).filter(|value| value.is_f64()).cloned();
            (pointer, float)
        });
        let result = change(object);
        for (pointer, float) in floats {
            if let (Some(float), Some(place)) = (float, object.pointer_mut(&pointer)) {
                *place = float;
            }
        }
        result
    }
}

/// Returns what is wrong with the replicas at a path.
fn replicas(object: &Value, path: &str) -> Option<Cause> {
    let field = format!(".{path}");
    let value = match at(object, path) {
        Ok(found) => found?,
        Err(why) => return Some(Cause::invalid(field, &Value::from(0), why)),
    };
    match value.as_i64() {
        None => Some(Cause::invalid(field, &Value::from(0), mistyped(path, value, "int64"))),
        Some(..0) => Some(Cause::invalid(field, value, "should be a non-negative integer")),
        Some(replicas) if i32::try_from(replicas).is_err() => {
            Some(Cause::invalid(field, value, format!("should be less than or equal to {}", i32::MAX)))
        }
        Some(_) => None,
    }
}

/// Returns the value at a path. The error is that of apimachinery's accessor for a parent that is no object.
fn at<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut value = object;
    for (end, _) in path.match_indices('.').chain([(path.len(), "")]) {
        let start = path[..end].rfind('.').map_or(0, |dot| dot + 1);
        value = match value {
            Value::Object(map) => match map.get(&path[start..end]) {
                Some(value) => value,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => {
                let parent = path[..end].rfind('.').map_or("", |dot| &path[..dot]);
                return Err(mistyped(parent, other, "map[string]interface {}"));
            }
        };
    }
    Ok(Some(value))
}

fn mistyped(path: &str, value: &Value, expected: &str) -> String {
    use longboat_patch::gofmt::{plain, type_name};
    format!(
        ".{path} accessor error: {} is of the type {}, expected {expected}",
        plain(value),
        type_name(value)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_are_integers_of_32_bits_and_a_selector_is_a_text() {
        let paths = ScalePaths::of(&json!({
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }))
        .unwrap();
        for (object, expected) in [
            (json!({"spec": {"replicas": 2}, "status": {"replicas": 0, "selector": "a=b"}}), vec![]),
            (json!({"spec": null}), vec![]),
            (
                json!({"spec": {"replicas": 2.0}}),
                vec![
                    "Invalid value: 0: .spec.replicas accessor error: 2 is of the type float64, expected int64",
                ],
            ),
            (
                json!({"spec": {"replicas": 5_000_000_000_u64}}),
                vec!["Invalid value: 5000000000: should be less than or equal to 2147483647"],
            ),
            (
                json!({"spec": {"replicas": -1}, "status": {"replicas": -2}}),
                vec![
                    "Invalid value: -1: should be a non-negative integer",
                    "Invalid value: -2: should be a non-negative integer",
                ],
            ),
            (
                json!({"spec": [1]}),
                vec![
                    "Invalid value: 0: .spec accessor error: [1] is of the type []interface {}, expected \
                     map[string]interface {}",
                ],
            ),
            (
                json!({"status": {"selector": 3}}),
                vec![
                    "Invalid value: \"\": .status.selector accessor error: 3 is of the type int64, expected string",
                ],
            ),
        ] {
            let messages: Vec<_> = paths.validate(&object).into_iter().map(|cause| cause.message).collect();
            assert_eq!(messages, expected, "{object}");
        }
    }
}
