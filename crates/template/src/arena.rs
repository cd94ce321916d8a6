//! Values that methods create while a template is rendered. They live as long as the rendering.

use std::cell::OnceCell;

use serde_json::Value as Json;

/// All created values, in order.
#[derive(Default)]
pub(crate) struct Arena {
    first: Slot,
}

/// Holds one value.
#[derive(Default)]
pub(crate) struct Slot(OnceCell<Box<ArenaEntry>>);

struct ArenaEntry {
    value: Json,
    next: Slot,
}

// === impl Arena ===

impl Arena {
    /// The slot of the first value.
    pub(crate) fn first(&self) -> &Slot {
        &self.first
    }
}

impl Drop for Arena {
    /// Drops the values in a loop: if each value dropped the next one recursively, the stack would grow with the list.
    fn drop(&mut self) {
        let mut next = self.first.0.take();
        while let Some(mut entry) = next {
            next = entry.next.0.take();
        }
    }
}

// === impl Slot ===

impl Slot {
    /// Stores a value. Returns it, and the slot of the next value.
    pub(crate) fn keep(&self, value: Json) -> (&Json, &Self) {
        let entry = self.0.get_or_init(|| Box::new(ArenaEntry { value, next: Self::default() }));
        (&entry.value, &entry.next)
    }
}
