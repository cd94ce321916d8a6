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

/// Edits an object without admission and validation. Repeats the write until no other write interferes. Another object that has
/// the name meanwhile is left alone.
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
                let current = state.store.get(table, &key).ok_or(WriteError::Missing)?;
                if current.metadata()["uid"] != stored.metadata()["uid"] {
                    return Err(WriteError::Missing);
                }
                stored = current;
            }
            other => return other,
        }
    }
    Err(WriteError::Changed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ApiServer, Options};

    #[test]
    fn a_successor_of_the_same_name_is_left_alone() {
        let server = ApiServer::new(Options::default()).unwrap();
        let (state, key) = (&server.state, Key::new("", "a"));
        let create = |uid: &str| {
            let object = json!({"metadata": {"name": "a", "uid": uid}});
            state.store.create("t", key.clone(), object, &[]).unwrap()
        };
        let first = create("1");
        state.store.delete("t", key.clone(), first.revision).unwrap();
        let second = create("2");
        let edited = edit_stored(state, "t", &first, |value| value["edited"] = json!(true));
        assert!(matches!(edited, Err(WriteError::Missing)), "{edited:?}");
        let changed = state.store.update("t", key.clone(), second.revision, second.value.clone()).unwrap();
        assert_ne!(changed.revision, second.revision);
        let edited = edit_stored(state, "t", &second, |value| value["edited"] = json!(true)).unwrap();
        assert_eq!((&edited.metadata()["uid"], &edited.value["edited"]), (&json!("2"), &json!(true)));
    }
}
