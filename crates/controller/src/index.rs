//! From each object to the services that look at it.

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;

use crate::key::{Key, ObjectKey};

/// Which services looked at which objects in their last pass, existing or not. A change of an object wakes those, and
/// no others.
///
/// Every service looks at some twenty objects, nearly all of which others look at, too: both sides are numbers here.
#[derive(Debug, Default)]
pub(crate) struct Index {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    services: Numbered<Key, Box<[u32]>>,
    objects: Numbered<ObjectKey, Vec<u32>>,
}

/// Values by key and by number. Numbers of keys that are gone are given to others.
#[derive(Debug)]
struct Numbered<K, V> {
    numbers: HashMap<K, u32>,
    slots: Vec<Option<(K, V)>>,
    free: Vec<u32>,
}

// === impl Index ===

impl Index {
    /// Replaces what a service looks at.
    pub(crate) fn set(&self, service: &Key, uses: BTreeSet<ObjectKey>) {
        let mut state = self.state.lock();
        if state.uses(service).is_some_and(|known| known.eq(uses.iter().map(Some))) {
            return;
        }
        state.remove(service);
        let State { services, objects } = &mut *state;
        let number = services.number(service);
        let uses = uses.into_iter().map(|object| {
            let object = objects.number(&object);
            if let Some(users) = objects.get_mut(object) {
                users.push(number);
            }
            object
        });
        let uses = uses.collect();
        if let Some(known) = services.get_mut(number) {
            *known = uses;
        }
    }

    /// Forgets a service.
    pub(crate) fn remove(&self, service: &Key) {
        self.state.lock().remove(service);
    }

    /// The services that look at an object.
    pub(crate) fn users(&self, object: &ObjectKey) -> Vec<Key> {
        let state = self.state.lock();
        let users = state.objects.by_key(object).into_iter().flatten();
        users.filter_map(|number| state.services.key(*number).cloned()).collect()
    }
}

// === impl State ===

impl State {
    /// What a service looks at, in order.
    fn uses(&self, service: &Key) -> Option<impl Iterator<Item = Option<&ObjectKey>>> {
        let uses = self.services.by_key(service)?;
        Some(uses.iter().map(|object| self.objects.key(*object)))
    }

    fn remove(&mut self, service: &Key) {
        let Some((number, looked_at)) = self.services.remove(service) else { return };
        for object in looked_at {
            let Some(users) = self.objects.get_mut(object) else { continue };
            users.retain(|user| *user != number);
            if users.is_empty()
                && let Some(key) = self.objects.key(object).cloned()
            {
                self.objects.remove(&key);
            }
        }
    }
}

// === impl Numbered ===

impl<K, V> Default for Numbered<K, V> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<K: Clone + Eq + std::hash::Hash, V: Default> Numbered<K, V> {
    /// The number of a key, which gets one if it has none.
    fn number(&mut self, key: &K) -> u32 {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer objects than memory has bytes for")
        });
        self.slots[number as usize] = Some((key.clone(), V::default()));
        self.numbers.insert(key.clone(), number);
        number
    }

    fn key(&self, number: u32) -> Option<&K> {
        self.slots.get(number as usize)?.as_ref().map(|(key, _)| key)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut V> {
        self.slots.get_mut(number as usize)?.as_mut().map(|(_, value)| value)
    }

    fn by_key(&self, key: &K) -> Option<&V> {
        let number = *self.numbers.get(key)?;
        self.slots.get(number as usize)?.as_ref().map(|(_, value)| value)
    }

    fn remove(&mut self, key: &K) -> Option<(u32, V)> {
        let number = self.numbers.remove(key)?;
        let (_, value) = self.slots.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some((number, value))
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

    #[test]
    fn who_comes_after_another_went_has_only_its_own() {
        let index = Index::default();
        let [old, other, new] = ["old", "other", "new"].map(|name| Key::new("ns", name));
        let [a, b, c] = ["a", "b", "c"].map(|name| Key::new("ns", name).of_kind(Kind::Secret));
        index.set(&old, BTreeSet::from([a.clone(), b.clone()]));
        index.set(&other, BTreeSet::from([b.clone()]));
        index.remove(&old);
        index.set(&new, BTreeSet::from([b.clone(), c.clone()]));
        assert!(index.users(&a).is_empty());
        assert_eq!(BTreeSet::from_iter(index.users(&b)), BTreeSet::from([other, new.clone()]));
        assert_eq!(index.users(&c), [new]);
        index.remove(&old);
        assert_eq!(index.users(&b).len(), 2);
    }
}
