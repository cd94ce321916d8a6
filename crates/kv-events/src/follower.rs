//! Keeping up with one publisher by its sequence numbers.

/// What to do with a message, or after a connection was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is the next one: apply it.
    Apply,
    /// It was applied already.
    Skip,
    /// Messages are missing: ask for those from this number on, apply them, and then this one.
    Replay(u64),
    /// The publisher began anew: forget what is known of it, then go on with what comes from this number on.
    Restart,
}

/// What is known of one publisher's sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Follower {
    expected: Option<u64>,
    reconnected: bool,
    lost: u64,
}

// === impl Follower ===

impl Follower {
    /// A connection was made: the publisher may be another process now.
    pub fn connected(&mut self) {
        self.reconnected = true;
    }

    /// Messages that were missed and could not be had again.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// A message arrived. For anything but [`Step::Replay`] it counts as seen; after a replay, call
    /// [`caught_up`](Self::caught_up) and apply it.
    pub fn live(&mut self, sequence: u64) -> Step {
        let reconnected = std::mem::take(&mut self.reconnected);
        let step = match self.expected {
            None if sequence > 0 => return Step::Replay(0),
            None => Step::Apply,
            Some(expected) if sequence == expected => Step::Apply,
            Some(expected) if sequence > expected => return Step::Replay(expected),
            Some(_) if sequence == 0 || reconnected => {
                // What this process said before is to be had again.
                self.expected = if sequence == 0 { Some(1) } else { None };
                return Step::Restart;
            }
            Some(_) => return Step::Skip,
        };
        self.expected = Some(sequence.saturating_add(1));
        step
    }

    /// A message of a replay: whether to apply it.
    pub fn replayed(&mut self, sequence: u64) -> bool {
        let expected = self.expected.unwrap_or_default();
        if sequence < expected {
            return false;
        }
        self.lost = self.lost.saturating_add(sequence - expected);
        self.expected = Some(sequence.saturating_add(1));
        true
    }

    /// The replay before this message is over, whether or not it had all. Whether to apply the message: a replay may have
    /// contained it.
    pub fn caught_up(&mut self, sequence: u64) -> bool {
        self.replayed(sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_counts_once_and_gaps_are_asked_for() {
        let mut follower = Follower::default();
        follower.connected();
        assert_eq!(follower.live(3), Step::Replay(0));
        assert_eq!([1, 2, 3, 4].map(|sequence| follower.replayed(sequence)), [true; 4]);
        assert_eq!(follower.lost(), 1, "the publisher no longer had the first");
        assert!(!follower.caught_up(3), "the replay contained it");
        assert_eq!([4, 5].map(|sequence| follower.live(sequence)), [Step::Skip, Step::Apply]);
        assert_eq!(follower.live(8), Step::Replay(6));
        assert!(follower.caught_up(8));
        assert_eq!((follower.lost(), follower.live(9)), (3, Step::Apply));
    }

    #[test]
    fn a_publisher_that_began_anew_is_noticed() {
        let mut follower = Follower::default();
        assert_eq!([0, 1, 2].map(|sequence| follower.live(sequence)), [Step::Apply; 3]);
        assert_eq!(follower.live(0), Step::Restart);
        assert_eq!(follower.live(1), Step::Apply);
        follower.connected();
        assert_eq!(follower.live(2), Step::Apply, "the same process over a new connection");
        follower.connected();
        assert_eq!(follower.live(1), Step::Restart);
        assert_eq!(follower.live(1), Step::Replay(0));
    }
}
