//! The path of a field, in the form that users write and as a JSON pointer.

use std::fmt::Write as _;

use serde_json::Value;

/// A path to a field, in canonical form and as a JSON pointer. Both have the same steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath {
    /// `a.containers[name=main].args[0]`.
    pub path: String,
    /// `/a/containers/0/args/0`.
    pub pointer: String,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `.name`.
    Field(String),
    /// `[…]`.
    Bracket(String),
}

/// Parses a path. Returns `None` if a bracket is not closed.
pub fn parse(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path.trim_start_matches('.');
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let quoted = inner.strip_prefix('"').and_then(|inner| inner.split_once("\"]"));
            let (text, after) = match quoted {
                Some(found) => found,
                None => inner.split_once(']')?,
            };
            steps.push(Step::Bracket(text.to_owned()));
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Field(rest[..end].to_owned()));
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
    }
    Some(steps)
}

// === impl Step ===

impl Step {
    /// Follows the step from a value. Returns the value to which it leads, with its position if it is an element of a list.
    pub fn follow<'a>(&self, from: &'a Value) -> Option<(&'a Value, Option<usize>)> {
        let (Self::Field(text) | Self::Bracket(text)) = self;
        let (Self::Bracket(_), Value::Array(items)) = (self, from) else {
            return Some((from.get(text)?, None));
        };
        let at = match text.split_once('=') {
            Some((key, value)) => items.iter().position(|item| match item.get(key) {
                Some(Value::String(found)) => found == value,
                found => found.is_some_and(|found| found.to_string().as_str() == value),
            })?,
            None => text.parse().ok()?,
        };
        Some((items.get(at)?, Some(at)))
    }
}

// === impl FieldPath ===

impl FieldPath {
    /// Adds the step to a member of an object.
    pub fn enter(&mut self, key: &str) {
        if key.contains(['.', '[', '/']) {
            // Writing to a String cannot fail.
            let _ = write!(self.path, "[{key:?}]");
        } else {
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(key);
        }
        let _ = write!(self.pointer, "/{}", key.replace('~', "~0").replace('/', "~1"));
    }

    /// Adds the step to an element of a list, which the path names by its key, such as `name=main`, if it has one.
    pub fn enter_element(&mut self, key: Option<&str>, at: usize) {
        let _ = match key {
            Some(key) => write!(self.path, "[{key}]"),
            None => write!(self.path, "[{at}]"),
        };
        let _ = write!(self.pointer, "/{at}");
    }

    /// The lengths of both forms, for [`Self::back_to`].
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.path.len(), self.pointer.len())
    }

    /// Removes the steps after a mark.
    pub(crate) fn back_to(&mut self, (path, pointer): (usize, usize)) {
        self.path.truncate(path);
        self.pointer.truncate(pointer);
    }
}
