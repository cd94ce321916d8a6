//! How much one schema or pattern may cost.

use std::cell::Cell;

/// Levels of nested schemas and references.
pub(super) const DEPTH: usize = 48;
/// From this level on, the simplest value is chosen.
pub(super) const DEEP: usize = 5;
/// Characters of a text, items of a list or fields of an object that are made because a schema asks for so many.
pub(super) const LONGEST: usize = 4096;

/// Steps that are left.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn new(steps: usize) -> Self {
        Self(Cell::new(steps))
    }

    /// Takes a step, if any is left.
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
