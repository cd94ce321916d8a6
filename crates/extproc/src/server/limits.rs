//! What callers may cost: how many connections and streams there may be, and how long each may do nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The limits of a server. They are the same for both transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most connections. Further ones wait in the system's queue.
    pub connections: usize,
    /// The most streams of all connections. Further ones end with the gRPC status `UNAVAILABLE`.
    pub streams: usize,
    /// The most bytes of messages that have not come whole, in all streams. Proxies send pieces of about 50 KB.
    pub unfinished: usize,
    /// How long a connection may take for its first stream, and a stream for its first message.
    pub first: Duration,
    /// How long a connection may have no stream. It is then told to go away.
    pub idle: Duration,
    /// After so long without a byte, the peer is asked whether it is still there.
    pub silence: Duration,
    /// How long the peer may take to answer, and to go away when it was told to.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            streams: 1 << 16,
            unfinished: 256 << 20,
            first: Duration::from_secs(30),
            idle: Duration::from_mins(10),
            silence: Duration::from_mins(1),
            answer: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// How often a connection is looked at.
    pub(super) fn period(&self) -> Duration {
        let shortest = self.first.min(self.idle).min(self.silence).min(self.answer);
        (shortest / 4).clamp(Duration::from_millis(1), Duration::from_secs(10))
    }
}

/// Places for streams.
#[derive(Debug, Default)]
pub(super) struct Places(Arc<AtomicUsize>);

/// The place of an open stream.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Places {
    /// Takes a place, if there are fewer streams than this.
    pub(super) fn take(&self, limit: usize) -> Option<Place> {
        let more = |open: usize| (open < limit).then_some(open + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place(Arc::clone(&self.0)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a connection did since it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Streams that are open.
    pub(super) streams: usize,
    /// Streams that were ever opened.
    pub(super) opened: u64,
    /// Whether the peer has sent anything.
    pub(super) heard: bool,
}

/// What to do about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Stay,
    /// Ask the peer whether it is still there.
    Ping,
    /// Tell the peer to go away.
    Leave,
    /// Close the connection, for this reason.
    Close(&'static str),
}

/// The patience with one connection.
#[derive(Debug, Default)]
pub(super) struct Patience {
    age: Duration,
    idle: Duration,
    silent: Duration,
    opened: u64,
    pinged: bool,
    leaving: bool,
}

impl Patience {
    /// Looks at a connection. `passed` is the time since the last look.
    pub(super) fn look(&mut self, passed: Duration, limits: &Limits, seen: Seen) -> Verdict {
        self.age += passed;
        let busy = seen.streams > 0 || seen.opened > self.opened;
        self.opened = seen.opened;
        self.idle = if busy { Duration::ZERO } else { self.idle + passed };
        self.silent = if seen.heard { Duration::ZERO } else { self.silent + passed };
        self.pinged &= !seen.heard;
        if seen.opened == 0 && self.age >= limits.first {
            return Verdict::Close("it has opened no stream");
        }
        if self.silent >= limits.silence + limits.answer {
            return Verdict::Close("the peer does not answer");
        }
        if self.leaving {
            let late = self.idle >= limits.answer;
            return if late { Verdict::Close("it has no stream") } else { Verdict::Stay };
        }
        if self.idle >= limits.idle {
            self.leaving = true;
            self.idle = Duration::ZERO;
            return Verdict::Leave;
        }
        if self.silent >= limits.silence && !self.pinged {
            self.pinged = true;
            return Verdict::Ping;
        }
        Verdict::Stay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMITS: Limits = Limits {
        connections: 1,
        streams: 1,
        unfinished: 1,
        first: Duration::from_secs(3),
        idle: Duration::from_secs(5),
        silence: Duration::from_secs(4),
        answer: Duration::from_secs(2),
    };

    fn verdicts(looks: impl IntoIterator<Item = Seen>) -> Vec<Verdict> {
        let mut patience = Patience::default();
        looks.into_iter().map(|seen| patience.look(SECOND, &LIMITS, seen)).collect()
    }

    #[test]
    fn a_connection_must_open_a_stream_soon() {
        let slow = Seen { streams: 0, opened: 0, heard: true };
        let seen = verdicts([slow; 3]);
        assert_eq!(seen, [Verdict::Stay, Verdict::Stay, Verdict::Close("it has opened no stream")]);
    }

    #[test]
    fn a_connection_without_streams_is_told_to_go_and_closed_if_it_stays() {
        let idle = Seen { streams: 0, opened: 1, heard: true };
        let busy = Seen { streams: 1, ..idle };
        let mut seen = verdicts([busy].into_iter().chain([idle; 7]));
        assert_eq!(seen.pop(), Some(Verdict::Close("it has no stream")));
        assert_eq!(seen.split_off(5), [Verdict::Leave, Verdict::Stay]);
        assert_eq!(seen, [Verdict::Stay; 5]);
        let short = (1..20).map(|opened| Seen { streams: 0, opened, heard: true });
        assert!(
            verdicts(short).iter().all(|verdict| *verdict == Verdict::Stay),
            "each second had its stream"
        );
    }

    #[test]
    fn a_silent_peer_is_asked_once_and_closed_without_an_answer() {
        let silent = Seen { streams: 1, opened: 1, heard: false };
        let heard = Seen { heard: true, ..silent };
        let seen = verdicts([silent; 6]);
        assert_eq!(seen[3..], [Verdict::Ping, Verdict::Stay, Verdict::Close("the peer does not answer")]);
        let answers = [[silent; 4].as_slice(), &[heard]].concat().repeat(3);
        let pings = verdicts(answers).iter().filter(|verdict| **verdict == Verdict::Ping).count();
        assert_eq!(pings, 3);
    }

    #[test]
    fn there_are_so_many_places_and_a_stream_that_ends_leaves_its_own() {
        let places = Places::default();
        let first = places.take(1).unwrap();
        assert!(places.take(1).is_none());
        drop(first);
        assert!(places.take(1).is_some());
    }
}
