//! The last deletions, so that late responses bring no object back.

use std::collections::VecDeque;

use crate::version::Version;

/// The number of deletions that are remembered for pending responses. After more deletions, it is unknown whether the object
/// of an older response was deleted.
pub(crate) const DELETION_LOG_LIMIT: usize = 1024;

/// The last deleted objects.
#[derive(Debug, Default)]
pub(crate) struct DeletionLog {
    last: VecDeque<Version>,
    /// The number of deletions so far.
    count: u64,
}

/// When a request was sent, expressed as the number of deletions until then.
#[derive(Clone, Copy, Debug)]
pub struct DeletionMark(u64);

// === impl DeletionLog ===

impl DeletionLog {
    /// Marks this moment.
    pub(crate) fn mark(&self) -> DeletionMark {
        DeletionMark(self.count)
    }

    pub(crate) fn add(&mut self, gone: Version) {
        if self.last.len() == DELETION_LOG_LIMIT {
            self.last.pop_front();
        }
        self.last.push_back(gone);
        self.count += 1;
    }

    /// From now on, any object counts as possibly deleted.
    pub(crate) fn clear(&mut self) {
        self.last.clear();
        self.count += 1;
    }

    /// Whether an object was deleted since the mark, or may have been.
    pub(crate) fn may_have(&self, object: &Version, since: DeletionMark) -> bool {
        let since = usize::try_from(self.count - since.0).unwrap_or(usize::MAX);
        since > self.last.len() || self.last.iter().rev().take(since).any(|gone| gone.is_same_object(object))
    }
}
