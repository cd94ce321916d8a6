//! From each object to the services that look at it.

use std::collections::{BTreeSet, HashMap, VecDeque};

use parking_lot::Mutex;

use crate::key::{Key, ObjectKey};

/// The last news, for passes under way: more of it, and a pass does not know any more what it missed.
const RECENT: usize = 256;

/// Which services looked at which objects in their last pass, existing or not. A change of an object wakes those, and
/// no others.
///
/// What a pass looks at is known only when it has looked: of what changed in between, a first look is told here.
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
    /// The last objects of which there was news, and of how many there ever was.
    recent: VecDeque<ObjectKey>,
    told: u64,
}

/// When somebody looked, by the news until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(u64);

/// Values by key and by number. Numbers of keys that are gone are given to others.
#[derive(Debug)]
struct Numbered<K, V> {
    numbers: HashMap<K, u32>,
    slots: Vec<Option<(K, V)>>,
    free: Vec<u32>,
}

// === impl Index ===

impl Index {
    pub(crate) fn now(&self) -> Moment {
        Moment(self.state.lock().told)
    }

    /// Replaces what a service looks at, which it began to do at that moment. Whether there was news since then of which nobody
    /// told it, because it was not known to look there.
    pub(crate) fn set(&self, service: &Key, uses: BTreeSet<ObjectKey>, began: Moment) -> bool {
        let mut state = self.state.lock();
        if state.uses(service).is_some_and(|known| known.eq(uses.iter().map(Some))) {
            return false;
        }
        let is_late = state.has_missed(service, &uses, began);
        state.remove(service);
        let State { services, objects, .. } = &mut *state;
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
        is_late
    }

    /// Forgets a service.
    pub(crate) fn remove(&self, service: &Key) {
        self.state.lock().remove(service);
    }

    /// Whether any service depends on an object.
    pub(crate) fn is_used(&self, object: &ObjectKey) -> bool {
        self.state.lock().objects.by_key(object).is_some_and(|users| !users.is_empty())
    }

    /// Takes news of objects; the services that look at them.
    pub(crate) fn tell(&self, news: impl IntoIterator<Item = ObjectKey>) -> Vec<Key> {
        let mut state = self.state.lock();
        let mut users = Vec::new();
        for object in news {
            let numbers = state.objects.by_key(&object).into_iter().flatten();
            users.extend(numbers.filter_map(|number| state.services.key(*number).cloned()));
            if state.recent.len() == RECENT {
                state.recent.pop_front();
            }
            state.recent.push_back(object);
            state.told += 1;
        }
        users
    }
}

// === impl State ===

impl State {
    /// What a service looks at, in order.
    fn uses(&self, service: &Key) -> Option<impl Iterator<Item = Option<&ObjectKey>>> {
        let uses = self.services.by_key(service)?;
        Some(uses.iter().map(|object| self.objects.key(*object)))
    }

    /// Whether there was news since that moment of what a service looks at and did not look at before.
    fn has_missed(&self, service: &Key, looked_at: &BTreeSet<ObjectKey>, began: Moment) -> bool {
        let missed = usize::try_from(self.told - began.0).unwrap_or(usize::MAX);
        if missed > self.recent.len() {
            return true;
        }
        let number = self.services.numbers.get(service);
        let was_told = |object| {
            let users = self.objects.by_key(object);
            users.zip(number).is_some_and(|(users, number)| users.contains(number))
        };
        self.recent.iter().rev().take(missed).any(|object| looked_at.contains(object) && !was_told(object))
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

    use super::{Index, RECENT};
    use crate::key::{Key, Kind, ObjectKey};

    fn key(name: &str) -> ObjectKey {
        Key::new("ns", name).of_kind(Kind::Config)
    }

    fn users(index: &Index, object: &ObjectKey) -> Vec<Key> {
        index.tell([object.clone()])
    }

    #[test]
    fn only_what_the_last_pass_looked_at_counts() {
        let index = Index::default();
        let service = Key::new("ns", "llm");
        let (a, b) = (key("a"), key("b"));
        index.set(&service, BTreeSet::from([a.clone(), b.clone()]), index.now());
        assert_eq!(users(&index, &a), std::slice::from_ref(&service));
        index.set(&service, BTreeSet::from([b.clone()]), index.now());
        assert!(users(&index, &a).is_empty());
        index.remove(&service);
        assert!(users(&index, &b).is_empty());
    }

    #[test]
    fn who_comes_after_another_went_has_only_its_own() {
        let index = Index::default();
        let [old, other, new] = ["old", "other", "new"].map(|name| Key::new("ns", name));
        let [a, b, c] = ["a", "b", "c"].map(key);
        index.set(&old, BTreeSet::from([a.clone(), b.clone()]), index.now());
        index.set(&other, BTreeSet::from([b.clone()]), index.now());
        index.remove(&old);
        index.set(&new, BTreeSet::from([b.clone(), c.clone()]), index.now());
        assert!(users(&index, &a).is_empty());
        assert_eq!(BTreeSet::from_iter(users(&index, &b)), BTreeSet::from([other, new.clone()]));
        assert_eq!(users(&index, &c), [new]);
        index.remove(&old);
        assert_eq!(users(&index, &b).len(), 2);
    }

    #[test]
    fn news_of_what_is_just_being_looked_at_for_the_first_time_is_not_lost() {
        let index = Index::default();
        let service = Key::new("ns", "llm");
        let looks_at =
            |names: &[&str], began| index.set(&service, names.iter().map(|name| key(name)).collect(), began);
        let began = index.now();
        assert!(users(&index, &key("a")).is_empty());
        assert!(!looks_at(&["b"], began));
        assert!(looks_at(&["a", "b"], began));
        // Of what it is known to look at, it was told.
        let began = index.now();
        assert_eq!(users(&index, &key("b")), std::slice::from_ref(&service));
        assert!(!looks_at(&["a", "b"], began));
        assert!(!looks_at(&["b", "c"], began));
        assert!(!looks_at(&["a"], index.now()));
    }

    #[test]
    fn more_news_than_is_remembered_counts_as_missed() {
        let index = Index::default();
        let service = Key::new("ns", "llm");
        let began = index.now();
        index.tell((0..RECENT).map(|number| key(&number.to_string())));
        assert!(!index.set(&service, BTreeSet::from([key("a")]), began));
        index.tell([key("one more")]);
        assert!(index.set(&service, BTreeSet::from([key("b")]), began));
    }
}
