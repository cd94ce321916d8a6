//! The content of one endpoint's encoder cache, by hash, with least-recently-used eviction.

use std::collections::hash_map::Entry;

use ahash::AHashMap;

/// One endpoint's items in order of use: a table, and a linked list through its entries. Each use needs one table lookup.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    /// The place of each hash in the list.
    places: AHashMap<u64, u32>,
    list: Vec<Link>,
    /// The ends of the list. [`NO_LINK`] if the list is empty.
    newest: u32,
    oldest: u32,
    /// The first free place. Free places form a list through `older`.
    free: u32,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    hash: u64,
    older: u32,
    newer: u32,
}

/// The place of no link: the end of a list.
const NO_LINK: u32 = u32::MAX;

impl Default for Cache {
    fn default() -> Self {
        Self { places: AHashMap::new(), list: Vec::new(), newest: NO_LINK, oldest: NO_LINK, free: NO_LINK }
    }
}

impl Cache {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn contains(&self, hash: u64) -> bool {
        self.places.contains_key(&hash)
    }

    /// Makes a hash the most recently used.
    pub(crate) fn touch(&mut self, hash: u64) {
        match self.places.entry(hash) {
            Entry::Occupied(known) => {
                let place = *known.get();
                if self.newest != place {
                    self.unlink(place);
                    self.link(place);
                }
            }
            Entry::Vacant(unknown) => {
                let link = Link { hash, older: NO_LINK, newer: NO_LINK };
                let place = if self.free == NO_LINK {
                    // 2³² items of one endpoint would need a list of 64 GB, so memory ends before `u32` does.
                    let place = u32::try_from(self.list.len()).unwrap_or(NO_LINK);
                    self.list.push(link);
                    place
                } else {
                    let place = self.free;
                    self.free = self.list[place as usize].older;
                    self.list[place as usize] = link;
                    place
                };
                unknown.insert(place);
                self.link(place);
            }
        }
    }

    /// Removes and returns the least recently used hash.
    pub(crate) fn evict(&mut self) -> Option<u64> {
        let place = self.oldest;
        let hash = self.list.get(place as usize)?.hash;
        self.unlink(place);
        self.places.remove(&hash);
        self.list[place as usize].older = self.free;
        self.free = place;
        Some(hash)
    }

    fn unlink(&mut self, place: u32) {
        let Link { older, newer, .. } = self.list[place as usize];
        match self.list.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
        match self.list.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
    }

    fn link(&mut self, place: u32) {
        let older = self.newest;
        self.list[place as usize].older = older;
        self.list[place as usize].newer = NO_LINK;
        match self.list.get_mut(older as usize) {
            Some(link) => link.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any sequence of uses and evictions has the same result as with a plain list.
        #[test]
        fn a_cache_forgets_what_a_list_in_order_of_use_would(steps in proptest::collection::vec(proptest::option::of(0..12_u64), 0..200)) {
            let (mut cache, mut list) = (Cache::default(), Vec::new());
            for step in steps {
                if let Some(hash) = step {
                    let known = list.iter().position(|held| *held == hash);
                    known.map(|at| list.remove(at));
                    list.push(hash);
                    cache.touch(hash);
                } else {
                    let oldest = (!list.is_empty()).then(|| list.remove(0));
                    prop_assert_eq!(cache.evict(), oldest);
                }
                prop_assert_eq!(cache.len(), list.len());
                prop_assert!(cache.list.len() <= 12, "places are used again");
            }
            prop_assert_eq!(std::iter::from_fn(|| cache.evict()).collect::<Vec<_>>(), list);
        }
    }
}
