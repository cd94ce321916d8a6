//! Writes of the server itself.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    deletion::is_finished,
    state::State,
    store::{Key, StoredObject, WriteError},
};

/// How many times to try an edit when other writes interfere.
const MAX_ATTEMPTS: usize = 10;

/// Edits an object without admission and validation. Repeats the write until no other write
/// interferes.
pub(crate) fn edit_stored(
    state: &State,
    table: &str,
    stored: &Arc<StoredObject>,
    edit: impl Fn(&mut Value),
) -> Result<Arc<StoredObject>, WriteError> {
    let key = Key::of(stored.value.head());
    let mut stored = Arc::clone(stored);
    for _ in 0..MAX_ATTEMPTS {
        let mut value = stored.value.clone();
        edit(&mut value);
        if value == *stored.value {
            return Ok(stored);
        }
        let written = if is_finished(&value) {
            state.store.delete(table, key.clone(), stored.revision)
        } else {
            state.store.update(table, key.clone(), stored.revision, value)
        };
        match written {
            Err(WriteError::Changed) => {
                stored = state.store.get(table, &key).ok_or(WriteError::Missing)?;
            }
            other => return other,
        }
    }
    Err(WriteError::Changed)
}
