//! JSON patches (RFC 6902) with the behaviour of the library in kube-apiserver. A `replace` of a missing key adds the key.
//! `test` and `copy` read a missing key as null. A missing `value` is null. Only `replace` may address the whole document.
//! The text before the first slash of a path is ignored.
//!
//! A few hundred bytes of `copy` can double the document at each step. So a patch has limits: its number of operations, the
//! bytes that it copies, the steps that it takes, and the depth of its result.

use longboat_schema::size;
use serde_json::Value;

use crate::depth::{self, MAX_DEPTH};

/// The most operations of one patch, as in kube-apiserver.
pub(crate) const MAX_OPERATIONS: usize = 10_000;
/// The most bytes that all `copy` operations of a patch may add, counted as JSON, as in kube-apiserver.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;
/// The most list elements to shift and values to visit, in total: about a second of work.
const MAX_STEPS: u64 = 100_000_000;

/// Why a patch was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonPatchError {
    /// An operation does not fit the document, or exceeds a limit.
    Unprocessable {
        /// The position of the operation in the patch.
        operation: usize,
    },
    /// The patch has this many operations.
    TooMany(usize),
    /// The result is nested too deeply to be stored.
    TooDeep,
}

/// Applies all operations, or returns an error.
pub(crate) fn apply(mut document: Value, operations: &Value) -> Result<Value, JsonPatchError> {
    let operations = operations.as_array().ok_or(JsonPatchError::Unprocessable { operation: 0 })?;
    if operations.len() > MAX_OPERATIONS {
        return Err(JsonPatchError::TooMany(operations.len()));
    }
    let mut patch = Patch { copied: 0, steps: 0, at: 0 };
    for (at, operation) in operations.iter().enumerate() {
        patch.at = at;
        patch.step(&mut document, operation)?;
    }
    Ok(document)
}

/// The state of a patch that is being applied: its cost so far.
struct Patch {
    copied: usize,
    steps: u64,
    /// The position of the current operation.
    at: usize,
}

// === impl Patch ===

impl Patch {
    fn step(&mut self, document: &mut Value, operation: &Value) -> Result<(), JsonPatchError> {
        let unfit = self.unprocessable_operation();
        let path = operation["path"].as_str().ok_or(unfit)?;
        let value = || operation.get("value").cloned().unwrap_or_default();
        if path.is_empty() && operation["op"] == "replace" {
            return self.replace_document(document, value());
        }
        let path = tokens(path).ok_or(unfit)?;
        let from = || operation["from"].as_str().and_then(tokens).ok_or(unfit);
        match operation["op"].as_str() {
            Some("add") => self.put(document, &path, value(), true),
            Some("replace") => self.put(document, &path, value(), false),
            Some("remove") => self.take(document, &path).map(drop),
            Some("move") => {
                let moved = self.take(document, &from()?)?;
                self.put(document, &path, moved, true)
            }
            Some("copy") => {
                let copied = get_or_null(document, &from()?).ok_or(unfit)?;
                self.copied += size(copied);
                if self.copied > MAX_COPIED_BYTES {
                    return Err(unfit);
                }
                let copied = copied.clone();
                self.put(document, &path, copied, true)
            }
            Some("test") => {
                let found = get_or_null(document, &path).ok_or(unfit)?;
                match operation.get("value") {
                    Some(expected) if found == expected => Ok(()),
                    _ => Err(unfit),
                }
            }
            _ => Err(unfit),
        }
    }

    fn spend(&mut self, steps: u64) -> Result<(), JsonPatchError> {
        self.steps += steps;
        if self.steps > MAX_STEPS { Err(self.unprocessable_operation()) } else { Ok(()) }
    }

    fn unprocessable_operation(&self) -> JsonPatchError {
        JsonPatchError::Unprocessable { operation: self.at }
    }

    /// Replaces the whole document. Like kube-apiserver, this leaves the document as it is if the new value is neither an
    /// object nor a list.
    fn replace_document(&mut self, document: &mut Value, value: Value) -> Result<(), JsonPatchError> {
        let mut looked_at = 0;
        depth::levels(&value, MAX_DEPTH, &mut looked_at).ok_or(JsonPatchError::TooDeep)?;
        self.spend(looked_at)?;
        if value.is_object() || value.is_array() {
            *document = value;
        }
        Ok(())
    }

    fn put(
        &mut self,
        document: &mut Value,
        path: &[String],
        value: Value,
        insert: bool,
    ) -> Result<(), JsonPatchError> {
        let unfit = self.unprocessable_operation();
        let room = MAX_DEPTH.checked_sub(path.len()).ok_or(JsonPatchError::TooDeep)?;
        let mut looked_at = 0;
        depth::levels(&value, room, &mut looked_at).ok_or(JsonPatchError::TooDeep)?;
        self.spend(looked_at)?;
        let (name, parents) = path.split_last().ok_or(unfit)?;
        match get_mut(document, parents).ok_or(unfit)? {
            Value::Object(map) => {
                map.insert(name.clone(), value);
                Ok(())
            }
            Value::Array(list) if insert && name == "-" => {
                list.push(value);
                Ok(())
            }
            Value::Array(list) => {
                if !insert {
                    let at = index(name, list.len()).ok_or(unfit)?;
                    *list.get_mut(at).ok_or(unfit)? = value;
                    return Ok(());
                }
                // negative positions count from the end of the resulting list, which is one element longer
                let at = index(name, list.len() + 1).filter(|at| *at <= list.len()).ok_or(unfit)?;
                self.spend((list.len() - at) as u64)?;
                list.insert(at, value);
                Ok(())
            }
            _ => Err(unfit),
        }
    }

    fn take(&mut self, document: &mut Value, path: &[String]) -> Result<Value, JsonPatchError> {
        let unfit = self.unprocessable_operation();
        let (name, parents) = path.split_last().ok_or(unfit)?;
        match get_mut(document, parents).ok_or(unfit)? {
            Value::Object(map) => {
                self.spend(map.len() as u64)?;
                map.remove(name).ok_or(unfit)
            }
            Value::Array(list) => {
                let at = index(name, list.len()).filter(|at| *at < list.len()).ok_or(unfit)?;
                self.spend((list.len() - at) as u64)?;
                Ok(list.remove(at))
            }
            _ => Err(unfit),
        }
    }
}

fn tokens(pointer: &str) -> Option<Vec<String>> {
    let (_, rest) = pointer.split_once('/')?;
    Some(rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
}

/// The value at a path, or null for a key that the object does not have.
fn get_or_null<'a>(document: &'a Value, path: &[String]) -> Option<&'a Value> {
    let (name, parents) = path.split_last()?;
    match get(document, parents)? {
        Value::Object(map) => Some(map.get(name).unwrap_or(&Value::Null)),
        list => get(list, std::slice::from_ref(name)),
    }
}

fn get<'a>(document: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(document, |value, token| match value {
        Value::Object(map) => map.get(token),
        Value::Array(list) => list.get(index(token, list.len())?),
        _ => None,
    })
}

fn get_mut<'a>(document: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, token| match value {
        Value::Object(map) => map.get_mut(token),
        Value::Array(list) => {
            let at = index(token, list.len())?;
            list.get_mut(at)
        }
        _ => None,
    })
}

/// Parses a position in a list. Negative positions count from the end.
fn index(token: &str, len: usize) -> Option<usize> {
    match token.strip_prefix('-') {
        Some(back) => len.checked_sub(back.parse().ok()?),
        None => token.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn copies_that_double_a_document_end_at_three_megabytes() {
        let document = json!({"data": {"a": "x".repeat(1000)}});
        let doubling: Vec<Value> =
            (0..22).map(|i| json!({"op": "copy", "from": "/data", "path": format!("/data/c{i}")})).collect();
        let refused = apply(document.clone(), &json!(doubling));
        assert!(matches!(refused, Err(JsonPatchError::Unprocessable { operation: 11.. })), "{refused:?}");
        assert!(apply(document, &json!(doubling[..8])).is_ok());
    }

    #[test]
    fn copies_into_each_other_end_at_the_depth_that_can_be_stored() {
        let document = json!({"a": {}});
        let nesting: Vec<Value> = (0..1000)
            .map(|i| json!({"op": "add", "path": format!("/a{}", "/a".repeat(i)), "value": {"a": {}}}))
            .collect();
        assert_eq!(apply(document.clone(), &json!(nesting)), Err(JsonPatchError::TooDeep));
        let result = apply(document, &json!(nesting[..90])).unwrap();
        assert!(depth::check(&result).is_ok());
    }

    #[test]
    fn operations_are_counted() {
        let patch = vec![json!({"op": "test", "path": "/a", "value": 1}); MAX_OPERATIONS + 1];
        assert_eq!(apply(json!({"a": 1}), &json!(patch)), Err(JsonPatchError::TooMany(10_001)));
        assert!(apply(json!({"a": 1}), &json!(patch[1..])).is_ok());
    }

    #[test]
    fn the_front_of_a_long_list_is_not_shifted_for_ever() {
        let document = json!({"a": vec![0; 500_000]});
        let patch = vec![json!({"op": "add", "path": "/a/0", "value": 1}); 1000];
        assert!(matches!(apply(document, &json!(patch)), Err(JsonPatchError::Unprocessable { .. })));
    }
}
