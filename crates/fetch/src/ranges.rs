//! Sets of byte ranges.

/// Sorted byte ranges that neither touch nor overlap. Each range includes its start and excludes its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

// === impl Ranges ===

impl Ranges {
    /// Adds a range.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let from = self.0.partition_point(|range| range.1 < start);
        let to = self.0.partition_point(|range| range.0 <= end);
        let (mut low, mut high) = (start, end);
        if from < to {
            low = low.min(self.0[from].0);
            high = high.max(self.0[to - 1].1);
        }
        self.0.splice(from..to, [(low, high)]);
    }

    /// The total number of bytes.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    /// The number of bytes from the start of the file up to the first gap.
    pub(crate) fn prefix(&self) -> u64 {
        self.0.first().filter(|range| range.0 == 0).map_or(0, |range| range.1)
    }

    /// Returns the missing ranges of a file of this size, in pieces of at most `piece` bytes.
    pub(crate) fn missing(&self, size: u64, piece: u64) -> Vec<(u64, u64)> {
        let mut missing = Vec::new();
        let mut at = 0;
        for (start, end) in self.0.iter().copied().chain([(size, size)]) {
            while at < start.min(size) {
                let next = start.min(size).min(at.saturating_add(piece.max(1)));
                missing.push((at, next));
                at = next;
            }
            at = at.max(end);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_a_set_of_bytes(ranges in proptest::collection::vec((0u64..64, 0u64..64), 0..20), piece in 1u64..20) {
            let mut set = Ranges::default();
            let mut bytes = [false; 64];
            for (start, end) in ranges {
                set.insert(start, end);
                for byte in bytes.iter_mut().take(usize::try_from(end).unwrap()).skip(usize::try_from(start).unwrap()) {
                    *byte = true;
                }
            }
            let count = |wanted: bool| bytes.iter().filter(|there| **there == wanted).count() as u64;
            prop_assert_eq!(set.total(), count(true));
            prop_assert_eq!(set.prefix(), bytes.iter().take_while(|there| **there).count() as u64);
            let missing = set.missing(64, piece);
            prop_assert_eq!(missing.iter().map(|(start, end)| end - start).sum::<u64>(), count(false));
            for (start, end) in missing {
                prop_assert!(end - start <= piece);
                prop_assert!((start..end).all(|at| !bytes[usize::try_from(at).unwrap()]));
            }
            prop_assert!(set.0.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
