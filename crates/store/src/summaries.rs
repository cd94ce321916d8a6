//! The parts of objects on which others depend.

use std::{collections::BTreeMap, fmt, sync::Arc};

use rpds::RedBlackTreeMapSync;

/// A summary of each object of a kind, by namespace and name. Clones share memory, like those of [`Objects`](crate::Objects).
pub struct Summaries<S>(BTreeMap<Arc<str>, Named<S>>);

type Named<S> = RedBlackTreeMapSync<Arc<str>, Arc<S>>;

// === impl Summaries ===

impl<S> Summaries<S> {
    /// The summary of the object of that name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<S>> {
        self.0.get(namespace)?.get(name).cloned()
    }

    /// The summaries of a namespace by name, each with its namespace and name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &S)> {
        let named = self.0.get_key_value(namespace).into_iter();
        named.flat_map(|(namespace, named)| {
            named.iter().map(move |(name, summary)| (namespace, name, summary.as_ref()))
        })
    }

    /// All summaries, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &S)> {
        let all = self.0.iter();
        all.flat_map(|(namespace, named)| {
            named.iter().map(move |(name, summary)| (namespace, name, summary.as_ref()))
        })
    }

    /// Removes a summary. Returns it, if there was one.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<S>> {
        let named = self.0.get_mut(namespace)?;
        let removed = named.get(name).cloned()?;
        named.remove_mut(name);
        Some(removed)
    }

    /// Takes the summaries of a namespace from another collection. They replace the summaries of that namespace.
    pub fn adopt(&mut self, namespace: &str, from: &Self) {
        if let Some((namespace, named)) = from.0.get_key_value(namespace) {
            self.0.insert(Arc::clone(namespace), named.clone());
        }
    }
}

impl<S: PartialEq> Summaries<S> {
    /// Adds a summary. Returns the one it replaces.
    pub fn insert(&mut self, namespace: &str, name: &str, summary: Arc<S>) -> Option<Arc<S>> {
        let Some(named) = self.0.get_mut(namespace) else {
            self.0.insert(namespace.into(), Named::default().insert(name.into(), summary));
            return None;
        };
        let known = named.get_key_value(name).map(|(name, summary)| (Arc::clone(name), Arc::clone(summary)));
        let (name, replaced) = known.map_or_else(|| (name.into(), None), |(name, known)| (name, Some(known)));
        if replaced.as_deref() != Some(&*summary) {
            named.insert_mut(name, summary);
        }
        replaced
    }
}

impl<S> Default for Summaries<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S> Clone for Summaries<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> fmt::Debug for Summaries<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(namespace, named)| (namespace, named.keys().collect::<Vec<_>>()));
        f.debug_map().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_as_it_was() {
        let mut all = Summaries::default();
        assert!(all.insert("ns", "a", Arc::new(1)).is_none());
        let mut copy = Summaries::default();
        copy.adopt("ns", &all);
        copy.adopt("other", &all);
        assert_eq!(all.insert("ns", "a", Arc::new(2)).as_deref(), Some(&1));
        all.insert("ns", "b", Arc::new(3));
        let of = |all: &Summaries<i32>| {
            all.iter().map(|(_, name, summary)| (name.to_string(), *summary)).collect::<Vec<_>>()
        };
        assert_eq!(of(&copy), [("a".to_owned(), 1)]);
        assert_eq!(of(&all), [("a".to_owned(), 2), ("b".to_owned(), 3)]);
        assert!(all.remove("ns", "b").is_some() && all.get("ns", "b").is_none());
        assert!(all.remove("ns", "b").is_none());
    }
}
