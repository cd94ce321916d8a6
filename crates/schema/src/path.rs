//! The path of the current value in a walk.

use std::{fmt::Write as _, ops::Deref};

/// A single text that grows and shrinks during the walk: a walk visits hundreds of values, and needs the path of very few.
#[derive(Debug, Default)]
pub(super) struct Path(String);

/// `path.name`, or `name` at the root.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

// === impl Path ===

impl Path {
    /// Visits the member `name`.
    pub(super) fn member<R>(&mut self, name: &str, visit: impl FnOnce(&mut Self) -> R) -> R {
        let end = self.0.len();
        if end > 0 {
            self.0.push('.');
        }
        self.0.push_str(name);
        let found = visit(self);
        self.0.truncate(end);
        found
    }

    /// Visits the item at `index`.
    pub(super) fn item<R>(&mut self, index: usize, visit: impl FnOnce(&mut Self) -> R) -> R {
        let end = self.0.len();
        // Writing to a text cannot fail.
        let _ = write!(self.0, "[{index}]");
        let found = visit(self);
        self.0.truncate(end);
        found
    }
}

impl Deref for Path {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_what_it_was_after_each_visit() {
        let mut path = Path::default();
        let deepest = path.member("a", |path| path.item(3, |path| path.member("b", |path| path.to_string())));
        assert_eq!((deepest.as_str(), &*path), ("a[3].b", ""));
        assert_eq!(join("a[3]", "b"), deepest);
    }
}
