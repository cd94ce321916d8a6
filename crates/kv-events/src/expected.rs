//! Blocks that endpoints will soon hold: those of requests that were just sent to them. They count for a moment, until the
//! engine reports the blocks that it has stored.

use std::collections::VecDeque;

use ahash::AHashMap;

use crate::keys::BlockKey;

/// The endpoints that are expected to hold each block, with an expiry.
#[derive(Debug, Clone)]
pub struct ExpectedBlocks {
    limit: usize,
    /// Endpoints with their expiry, by block.
    by_key: AHashMap<BlockKey, Vec<(u32, u64)>>,
    /// The entries in the order in which they were added, which is also the order in which they expire.
    order: VecDeque<(BlockKey, u32, u64)>,
}

impl ExpectedBlocks {
    /// Creates an empty set of at most `limit` blocks over all endpoints. Beyond that, the oldest are removed first.
    pub fn new(limit: usize) -> Self {
        Self { limit, by_key: AHashMap::new(), order: VecDeque::new() }
    }

    /// Records that an endpoint will hold these blocks, until the time `until`. Times are milliseconds since any fixed
    /// moment, and neither `now` nor `until` may decrease between calls.
    pub fn note(&mut self, holder: u32, keys: &[BlockKey], now: u64, until: u64) {
        while self.order.front().is_some_and(|&(_, _, end)| end <= now) {
            self.drop_oldest();
        }
        for &key in keys {
            let holders = self.by_key.entry(key).or_default();
            match holders.iter_mut().find(|(known, _)| *known == holder) {
                Some(known) => known.1 = until,
                None => holders.push((holder, until)),
            }
            self.order.push_back((key, holder, until));
            if self.order.len() > self.limit {
                self.drop_oldest();
            }
        }
    }

    /// Whether an endpoint is expected to hold a block.
    pub fn is_held(&self, holder: u32, key: BlockKey, now: u64) -> bool {
        self.by_key
            .get(&key)
            .is_some_and(|holders| holders.iter().any(|&(known, until)| known == holder && until > now))
    }

    /// Removes all entries of this endpoint.
    pub fn forget(&mut self, holder: u32) {
        self.order.retain(|&(_, noted, _)| noted != holder);
        self.by_key.retain(|_, holders| {
            holders.retain(|&(known, _)| known != holder);
            !holders.is_empty()
        });
    }

    fn drop_oldest(&mut self) {
        let Some((key, holder, until)) = self.order.pop_front() else { return };
        if let std::collections::hash_map::Entry::Occupied(mut holders) = self.by_key.entry(key) {
            // A later entry of the same block has its own place in the order.
            holders.get_mut().retain(|&known| known != (holder, until));
            if holders.get().is_empty() {
                holders.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn expected_blocks_match_a_naive_list(
            steps in prop::collection::vec((0..3_u32, prop::collection::vec(0..6_u64, 0..5), 0..4_u64, any::<bool>()), 0..40),
        ) {
            let mut expected = ExpectedBlocks::new(1000);
            let mut list: Vec<(u32, u64, u64)> = Vec::new();
            let mut now = 0;
            for (holder, keys, passed, forget) in steps {
                now += passed;
                if forget {
                    expected.forget(holder);
                    list.retain(|&(noted, ..)| noted != holder);
                } else {
                    expected.note(holder, &keys, now, now + 5);
                    list.extend(keys.iter().map(|&key| (holder, key, now + 5)));
                }
                for holder in 0..3 {
                    for key in 0..6 {
                        let held = list.iter().any(|&(h, k, until)| (h, k) == (holder, key) && until > now);
                        prop_assert_eq!(expected.is_held(holder, key, now), held);
                    }
                }
            }
            expected.note(0, &[], now + 5, now + 10);
            prop_assert!(expected.order.is_empty() && expected.by_key.is_empty());
        }

        #[test]
        fn the_number_of_notes_is_bounded(notes in prop::collection::vec((0..3_u32, 0..9_u64), 0..60), limit in 0..5_usize) {
            let mut expected = ExpectedBlocks::new(limit);
            for (holder, key) in notes {
                expected.note(holder, &[key], 0, 5);
                prop_assert!(expected.order.len() <= limit);
                prop_assert!(expected.by_key.values().map(Vec::len).sum::<usize>() <= limit);
            }
        }
    }
}
