//! From each object to the services that look at it.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;

use crate::key::{Key, ObjectKey};

/// Which services looked at which objects in their last pass, existing or not. A change of an object wakes those, and
/// no others.
#[derive(Debug, Default)]
pub(crate) struct Index {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Sorted. Most objects have one user, and a tree has room for eleven.
    users: HashMap<ObjectKey, Vec<Key>>,
    uses: HashMap<Key, Box<[ObjectKey]>>,
}

// === impl Index ===

impl Index {
    /// Replaces what a service looks at.
    pub(crate) fn set(&self, service: &Key, uses: BTreeSet<ObjectKey>) {
        let mut state = self.state.lock();
        if state.uses.get(service).is_some_and(|known| known.iter().eq(&uses)) {
            return;
        }
        state.remove(service);
        let uses = uses.into_iter().map(|object| state.add(object, service)).collect();
        state.uses.insert(service.clone(), uses);
    }

    /// Forgets a service.
    pub(crate) fn remove(&self, service: &Key) {
        self.state.lock().remove(service);
    }

    /// The services that look at an object.
    pub(crate) fn users(&self, object: &ObjectKey) -> Vec<Key> {
        self.state.lock().users.get(object).cloned().unwrap_or_default()
    }
}

impl State {
    /// Adds a user of an object. The object's key, of which there is one for all its users.
    fn add(&mut self, object: ObjectKey, service: &Key) -> ObjectKey {
        let object = self.users.get_key_value(&object).map(|(known, _)| known.clone()).unwrap_or(object);
        let users = self.users.entry(object.clone()).or_default();
        if let Err(place) = users.binary_search(service) {
            users.insert(place, service.clone());
        }
        object
    }

    fn remove(&mut self, service: &Key) {
        for object in self.uses.remove(service).into_iter().flatten() {
            if let Some(users) = self.users.get_mut(&object) {
                if let Ok(place) = users.binary_search(service) {
                    users.remove(place);
                }
                if users.is_empty() {
                    self.users.remove(&object);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Index;
    use crate::key::{Key, Kind};

    #[test]
    fn only_what_the_last_pass_looked_at_counts() {
        let index = Index::default();
        let service = Key::new("ns", "llm");
        let (a, b) = (Key::new("ns", "a").of_kind(Kind::Config), Key::new("ns", "b").of_kind(Kind::Config));
        index.set(&service, BTreeSet::from([a.clone(), b.clone()]));
        assert_eq!(index.users(&a), std::slice::from_ref(&service));
        index.set(&service, BTreeSet::from([b.clone()]));
        assert!(index.users(&a).is_empty());
        index.remove(&service);
        assert!(index.users(&b).is_empty());
    }
}
