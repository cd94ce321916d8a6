//! Errors of objects that do not match a schema.

use std::fmt;

/// An object that does not match its schema, with structured-merge-diff's texts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SchemaError {
    problems: Vec<(String, String)>,
}

impl SchemaError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { problems: vec![(String::new(), message.into())] }
    }

    /// Prepends a step to the paths of this error.
    pub(super) fn below(mut self, step: &dyn fmt::Display) -> Self {
        for (path, _) in &mut self.problems {
            path.insert_str(0, &step.to_string());
        }
        self
    }

    pub(super) fn join(&mut self, other: Self) {
        self.problems.extend(other.problems);
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |out: &mut fmt::Formatter<'_>, path: &str, message: &str| {
            if path.is_empty() { out.write_str(message) } else { write!(out, "{path}: {message}") }
        };
        match self.problems.as_slice() {
            [(path, message)] => one(out, path, message),
            problems => {
                out.write_str("errors:")?;
                for (path, message) in problems {
                    out.write_str("\n  ")?;
                    one(out, path, message)?;
                }
                Ok(())
            }
        }
    }
}

/// Combines several errors into one.
pub(super) fn all(results: impl IntoIterator<Item = Result<(), SchemaError>>) -> Result<(), SchemaError> {
    let mut failed: Option<SchemaError> = None;
    for error in results.into_iter().filter_map(Result::err) {
        match &mut failed {
            None => failed = Some(error),
            Some(first) => first.join(error),
        }
    }
    failed.map_or(Ok(()), Err)
}
