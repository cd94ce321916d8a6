//! Tracks the sequence numbers of one publisher.

/// The decision about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The message is the next one: apply it.
    Apply,
    /// The message was already applied: skip it.
    Skip,
    /// Messages are missing: request a replay from this number on, apply the replayed messages, and then this one.
    Replay(u64),
    /// The publisher has restarted: remove its state, then apply the messages from this one on.
    Restart,
}

/// The state of one publisher's sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Follower {
    expected: Option<u64>,
    reconnected: bool,
}

// === impl Follower ===

impl Follower {
    /// Called after a connection was made: the publisher may now be another process.
    pub fn connected(&mut self) {
        self.reconnected = true;
    }

    /// Handles a live message. Except for [`Step::Replay`], the message counts as seen. After a replay, call
    /// [`replayed`](Self::replayed) for it.
    pub fn live(&mut self, sequence: u64) -> Step {
        let reconnected = std::mem::take(&mut self.reconnected);
        let step = match self.expected {
            None if sequence > 0 => return Step::Replay(0),
            None => Step::Apply,
            Some(expected) if sequence == expected => Step::Apply,
            Some(expected) if sequence > expected => return Step::Replay(expected),
            // Only a new process begins at 0. Another number that goes back was repeated, unless the connection is new.
            Some(_) if sequence == 0 || reconnected => {
                // The earlier messages of the new process can be replayed.
                self.expected = if sequence == 0 { Some(1) } else { None };
                return Step::Restart;
            }
            Some(_) => return Step::Skip,
        };
        self.expected = Some(sequence.saturating_add(1));
        step
    }

    /// Handles a message of a replay, or the live message that asked for it, after the replay has ended, complete or not. Returns
    /// whether to apply the message: the replay may have contained the live one.
    pub fn replayed(&mut self, sequence: u64) -> bool {
        let expected = self.expected.unwrap_or_default();
        if sequence < expected {
            return false;
        }
        self.expected = Some(sequence.saturating_add(1));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_count_once_and_gaps_are_requested() {
        let mut follower = Follower::default();
        follower.connected();
        assert_eq!(follower.live(3), Step::Replay(0));
        assert_eq!([1, 2, 3, 4].map(|sequence| follower.replayed(sequence)), [true; 4]);
        assert!(!follower.replayed(3), "the replay contained it");
        assert_eq!([4, 5].map(|sequence| follower.live(sequence)), [Step::Skip, Step::Apply]);
        assert_eq!(follower.live(8), Step::Replay(6));
        assert!(follower.replayed(8));
        assert_eq!(follower.live(9), Step::Apply);
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
