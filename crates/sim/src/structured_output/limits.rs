//! The limits for the cost of a schema or pattern.

use std::cell::Cell;

/// The most levels of nested schemas and references.
pub(super) const MAX_DEPTH: usize = 48;
/// From this level on, the simplest value is generated.
pub(super) const SIMPLE_VALUES_DEPTH: usize = 5;
/// The most characters of a text, items of a list or fields of an object.
pub(super) const MAX_LENGTH: usize = 4096;

/// The remaining steps.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn new(steps: usize) -> Self {
        Self(Cell::new(steps))
    }

    /// Uses a step. Fails if none is left.
    pub(super) fn step(&self) -> Result<(), String> {
        match self.0.get().checked_sub(1) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => Err("the schema is too large to be simulated".to_owned()),
        }
    }
}
