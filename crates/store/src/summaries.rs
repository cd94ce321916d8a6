//! The parts of objects on which others depend.

use std::{collections::BTreeMap, fmt, sync::Arc};

use longboat_key::{Name, Namespace};
use rpds::RedBlackTreeMapSync;

/// A summary of each object of a kind, by namespace and name. Clones share memory, like those of [`Objects`](crate::Objects).
pub struct Summaries<S>(BTreeMap<Namespace, ByName<S>>);

type ByName<S> = RedBlackTreeMapSync<Name, Arc<S>>;

// === impl Summaries ===

impl<S> Summaries<S> {
    /// The summary of the object of that name.
    pub fn get(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<Arc<S>> {
        self.0.get(namespace.as_str())?.get(name.as_str()).cloned()
    }

    /// The summaries of a namespace by name, each with its namespace and name.
    pub fn in_namespace(&self, namespace: Namespace<&str>) -> impl Iterator<Item = (&Namespace, &Name, &S)> {
        let named = self.0.get_key_value(namespace.as_str()).into_iter();
        named.flat_map(|(namespace, named)| {
            named.iter().map(move |(name, summary)| (namespace, name, summary.as_ref()))
        })
    }

    /// All summaries, by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&Namespace, &Name, &S)> {
        let all = self.0.iter();
        all.flat_map(|(namespace, named)| {
            named.iter().map(move |(name, summary)| (namespace, name, summary.as_ref()))
        })
    }

    /// Removes a summary. Returns it, if there was one.
    pub fn remove(&mut self, namespace: Namespace<&str>, name: Name<&str>) -> Option<Arc<S>> {
        let named = self.0.get_mut(namespace.as_str())?;
        let removed = named.get(name.as_str()).cloned()?;
        named.remove_mut(name.as_str());
        if named.is_empty() {
            self.0.remove(namespace.as_str());
        }
        Some(removed)
    }

    /// Takes the summaries of a namespace from another collection. They replace the summaries of that namespace.
    pub fn adopt(&mut self, namespace: Namespace<&str>, from: &Self) {
        match from.0.get_key_value(namespace.as_str()) {
            Some((namespace, named)) => self.0.insert(namespace.clone(), named.clone()),
            None => self.0.remove(namespace.as_str()),
        };
    }
}

impl<S: PartialEq> Summaries<S> {
    /// Adds a summary. Returns the one it replaces.
    pub fn insert(
        &mut self,
        namespace: Namespace<&str>,
        name: Name<&str>,
        summary: Arc<S>,
    ) -> Option<Arc<S>> {
        let Some(named) = self.0.get_mut(namespace.as_str()) else {
            self.0.insert(namespace.to_shared(), ByName::default().insert(name.to_shared(), summary));
            return None;
        };
        let known = named.get_key_value(name.as_str());
        let known = known.map(|(name, summary)| (name.clone(), Arc::clone(summary)));
        let (name, replaced) =
            known.map_or_else(|| (name.to_shared(), None), |(name, known)| (name, Some(known)));
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
        assert!(all.insert(Namespace("ns"), Name("a"), Arc::new(1)).is_none());
        let mut copy = Summaries::default();
        copy.adopt(Namespace("ns"), &all);
        copy.adopt(Namespace("other"), &all);
        assert_eq!(all.insert(Namespace("ns"), Name("a"), Arc::new(2)).as_deref(), Some(&1));
        all.insert(Namespace("ns"), Name("b"), Arc::new(3));
        let of = |all: &Summaries<i32>| {
            all.iter().map(|(_, name, summary)| (name.to_string(), *summary)).collect::<Vec<_>>()
        };
        assert_eq!(of(&copy), [("a".to_owned(), 1)]);
        assert_eq!(of(&all), [("a".to_owned(), 2), ("b".to_owned(), 3)]);
        assert!(
            all.remove(Namespace("ns"), Name("b")).is_some() && all.get(Namespace("ns"), Name("b")).is_none()
        );
        assert!(all.remove(Namespace("ns"), Name("b")).is_none());
        all.remove(Namespace("ns"), Name("a"));
        assert!(all.0.is_empty());
    }
}
