//! Values that methods make while a template runs. They live as long as the run.

use std::cell::OnceCell;

use serde_json::Value as Json;

/// All of them, in the order in which they were made.
#[derive(Default)]
pub(crate) struct Made {
    first: Slot,
}

/// Holds one value.
#[derive(Default)]
pub(crate) struct Slot(OnceCell<Box<Kept>>);

struct Kept {
    value: Json,
    next: Slot,
}

// === impl Made ===

impl Made {
    /// Where the first value goes.
    pub(crate) fn first(&self) -> &Slot {
        &self.first
    }
}

impl Drop for Made {
    /// One after the other: a list that drops itself needs a stack as long as it is.
    fn drop(&mut self) {
        let mut next = self.first.0.take();
        while let Some(mut kept) = next {
            next = kept.next.0.take();
        }
    }
}

// === impl Slot ===

impl Slot {
    /// Keeps a value; where the next one goes.
    pub(crate) fn keep(&self, value: Json) -> (&Json, &Self) {
        let kept = self.0.get_or_init(|| Box::new(Kept { value, next: Self::default() }));
        (&kept.value, &kept.next)
    }
}
