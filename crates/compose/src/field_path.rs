//! The path of a field, in the form that users write and as a JSON pointer.

use std::fmt::Write as _;

/// A path to a field, in canonical form and as a JSON pointer. Both have the same steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath {
    /// `a.containers[name=main].args[0]`.
    pub path: String,
    /// `/a/containers/0/args/0`.
    pub pointer: String,
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
