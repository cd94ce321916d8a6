//! Which pods have a place on the node, and which wait for one.

use longboat_key::Key;
use std::collections::{BTreeMap, BTreeSet};

/// The places of the node. The cache shows a binding only after a while, so it cannot be counted there.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The pods on the node, with their uids: a later pod may have the same name.
    taken: BTreeMap<Key, Option<String>>,
    waiting: BTreeSet<Key>,
}

// === impl Places ===

impl Places {
    pub(super) fn taken(&self) -> usize {
        self.taken.len()
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.taken.contains_key(key)
    }

    pub(super) fn take(&mut self, key: Key, uid: Option<String>) {
        self.waiting.remove(&key);
        self.taken.insert(key, uid);
    }

    /// Frees the place of the pod, unless it is still the pod with this uid.
    pub(super) fn free(&mut self, key: &Key, uid: Option<&Option<String>>) {
        self.waiting.remove(key);
        if self.taken.get(key).is_some_and(|owner| Some(owner) != uid) {
            self.taken.remove(key);
        }
    }

    pub(super) fn wait(&mut self, key: Key) {
        self.waiting.insert(key);
    }

    /// Takes a pod from those that wait.
    pub(super) fn next_waiting(&mut self) -> Option<Key> {
        self.waiting.pop_first()
    }
}

#[cfg(test)]
mod tests {
    use longboat_key::{Name, Namespace};

    use super::*;

    #[test]
    fn a_place_is_free_when_its_pod_is_gone_or_another_pod_has_its_name() {
        let key = |name: &str| Key::new(Namespace("ns"), Name(name));
        let uid = |text: &str| Some(text.to_owned());
        let mut places = Places::default();
        places.take(key("a"), uid("1"));
        places.take(key("b"), uid("2"));
        places.free(&key("a"), Some(&uid("1")));
        assert!(places.has(&key("a")) && places.taken() == 2);
        places.free(&key("a"), Some(&uid("3")));
        places.free(&key("b"), None);
        assert_eq!(places.taken(), 0);

        places.wait(key("c"));
        places.wait(key("d"));
        places.free(&key("c"), None);
        assert_eq!(places.next_waiting(), Some(key("d")));
        assert_eq!(places.next_waiting(), None);
    }
}
