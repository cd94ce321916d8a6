//! Maps each object to the services that must be reconciled when it changes.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::Hash,
};

use longboat_key::{Key, ObjectKey};
use parking_lot::Mutex;

/// The number of changes that are remembered for running reconciles. After more changes, it is unknown what a reconcile has
/// missed.
const MAX_RECENT_CHANGES: usize = 256;

/// Which services depended on which objects in their last reconcile, whether or not these exist. A change of an object
/// enqueues those services and no others.
///
/// The dependencies of a reconcile are known only after it has read the caches. So new dependencies are compared with the
/// changes since the reconcile began.
///
/// Each service depends on about twenty objects, nearly all of which are shared. So services and objects are stored as
/// numbers.
#[derive(Debug)]
pub struct Index<K> {
    state: Mutex<State<K>>,
}

#[derive(Debug)]
struct State<K> {
    services: SlotMap<Key, Box<[u32]>>,
    objects: SlotMap<ObjectKey<K>, Vec<u32>>,
    /// The last changed objects.
    recent: VecDeque<ObjectKey<K>>,
    /// The number of changes so far.
    changes: u64,
}

/// A point in time, expressed as the number of changes until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(u64);

/// Values by key and by number. The number of a removed key is reused.
#[derive(Debug)]
struct SlotMap<K, V> {
    numbers: HashMap<K, u32>,
    slots: Vec<Option<(K, V)>>,
    free: Vec<u32>,
}

// === impl Index ===

impl<K> Default for Index<K> {
    fn default() -> Self {
        let state = State {
            services: SlotMap::default(),
            objects: SlotMap::default(),
            recent: VecDeque::new(),
            changes: 0,
        };
        Self { state: Mutex::new(state) }
    }
}

impl<K: Clone + Ord + Hash> Index<K> {
    /// The present moment, for [`Self::set`].
    pub fn now(&self) -> Moment {
        Moment(self.state.lock().changes)
    }

    /// Replaces the dependencies of a service after a reconcile that began at `began`. Returns whether a new dependency has
    /// changed since then, so that the service was not enqueued for that change.
    pub fn set(&self, service: &Key, uses: BTreeSet<ObjectKey<K>>, began: Moment) -> bool {
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

    /// Like [`Self::set`], but keeps the known dependencies of the service.
    pub fn add(&self, service: &Key, uses: &BTreeSet<ObjectKey<K>>, began: Moment) -> bool {
        let known: BTreeSet<ObjectKey<K>> = {
            let state = self.state.lock();
            state.uses(service).into_iter().flatten().flatten().cloned().collect()
        };
        !uses.is_subset(&known) && self.set(service, known.union(uses).cloned().collect(), began)
    }

    /// Forgets a service.
    pub fn remove(&self, service: &Key) {
        self.state.lock().remove(service);
    }

    /// Whether any service depends on an object.
    pub fn is_used(&self, object: &ObjectKey<K>) -> bool {
        self.state.lock().objects.by_key(object).is_some_and(|users| !users.is_empty())
    }

    /// Records that these objects have changed. Returns the services that depend on them.
    pub fn record(&self, changed: impl IntoIterator<Item = ObjectKey<K>>) -> Vec<Key> {
        let mut state = self.state.lock();
        let mut users = Vec::new();
        for object in changed {
            let numbers = state.objects.by_key(&object).into_iter().flatten();
            users.extend(numbers.filter_map(|number| state.services.key(*number).cloned()));
            if state.recent.len() == MAX_RECENT_CHANGES {
                state.recent.pop_front();
            }
            state.recent.push_back(object);
            state.changes += 1;
        }
        users
    }
}

// === impl State ===

impl<K: Clone + Ord + Hash> State<K> {
    /// The dependencies of a service, in order.
    fn uses(&self, service: &Key) -> Option<impl Iterator<Item = Option<&ObjectKey<K>>>> {
        let uses = self.services.by_key(service)?;
        Some(uses.iter().map(|object| self.objects.key(*object)))
    }

    /// Whether an object has changed since `began` that is a dependency now and was none before.
    fn has_missed(&self, service: &Key, dependencies: &BTreeSet<ObjectKey<K>>, began: Moment) -> bool {
        let missed = usize::try_from(self.changes - began.0).unwrap_or(usize::MAX);
        if missed > self.recent.len() {
            return true;
        }
        let number = self.services.numbers.get(service);
        let was_known = |object| {
            let users = self.objects.by_key(object);
            users.zip(number).is_some_and(|(users, number)| users.contains(number))
        };
        self.recent
            .iter()
            .rev()
            .take(missed)
            .any(|object| dependencies.contains(object) && !was_known(object))
    }

    fn remove(&mut self, service: &Key) {
        let Some((number, dependencies)) = self.services.remove(service) else { return };
        for object in dependencies {
            let Some(users) = self.objects.get_mut(object) else { continue };
            users.retain(|user| *user != number);
            // Objects that nobody depends on are forgotten: services look for many that never exist.
            if users.is_empty()
                && let Some(key) = self.objects.key(object).cloned()
            {
                self.objects.remove(&key);
            }
        }
    }
}

// === impl SlotMap ===

impl<K, V> Default for SlotMap<K, V> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash, V: Default> SlotMap<K, V> {
    /// Returns the number of a key. Assigns one if the key has none.
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

    use longboat_key::{Name, Namespace};

    use super::{Index, Key, MAX_RECENT_CHANGES};

    type ObjectKey = super::ObjectKey<&'static str>;

    fn key(name: &str) -> ObjectKey {
        Key::new(Namespace("ns"), Name(name)).of_kind("Config")
    }

    fn users(index: &Index<&'static str>, object: &ObjectKey) -> Vec<Key> {
        index.record([object.clone()])
    }

    #[test]
    fn only_dependencies_of_the_last_reconcile_count() {
        let index = Index::default();
        let service = Key::new(Namespace("ns"), Name("llm"));
        let (a, b) = (key("a"), key("b"));
        index.set(&service, BTreeSet::from([a.clone(), b.clone()]), index.now());
        assert_eq!(users(&index, &a), std::slice::from_ref(&service));
        index.set(&service, BTreeSet::from([b.clone()]), index.now());
        assert!(users(&index, &a).is_empty());
        index.remove(&service);
        assert!(users(&index, &b).is_empty());
    }

    #[test]
    fn a_new_service_does_not_inherit_the_dependencies_of_a_removed_one() {
        let index = Index::default();
        let [old, other, new] = ["old", "other", "new"].map(|name| Key::new(Namespace("ns"), Name(name)));
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
    fn a_change_of_a_dependency_that_is_not_yet_known_is_not_lost() {
        let index = Index::default();
        let service = Key::new(Namespace("ns"), Name("llm"));
        let depends_on =
            |names: &[&str], began| index.set(&service, names.iter().map(|name| key(name)).collect(), began);
        let began = index.now();
        assert!(users(&index, &key("a")).is_empty());
        assert!(!depends_on(&["b"], began));
        assert!(depends_on(&["a", "b"], began));
        // A change of a known dependency has already enqueued the service.
        let began = index.now();
        assert_eq!(users(&index, &key("b")), std::slice::from_ref(&service));
        assert!(!depends_on(&["a", "b"], began));
        assert!(!depends_on(&["b", "c"], began));
        assert!(!depends_on(&["a"], index.now()));
    }

    #[test]
    fn more_changes_than_are_remembered_count_as_missed() {
        let index = Index::default();
        let service = Key::new(Namespace("ns"), Name("llm"));
        let began = index.now();
        index.record((0..MAX_RECENT_CHANGES).map(|number| key(&number.to_string())));
        assert!(!index.set(&service, BTreeSet::from([key("a")]), began));
        index.record([key("one more")]);
        assert!(index.set(&service, BTreeSet::from([key("b")]), began));
    }
}
