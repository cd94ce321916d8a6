//! Limits on callers: the number of connections and streams, and the time for which each may be idle.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The most streams per connection. A stream lives as long as its HTTP response, so a proxy with more requests in flight opens
/// more connections, as Envoy does.
pub(crate) const MAX_STREAMS: u32 = 256;

/// The message of the status for a stream beyond the limit.
pub(super) const TOO_MANY_STREAMS: &str = "too many streams";

/// The most bytes of fields in the headers of a stream, counted as in the standard of HPACK. A proxy's stream has a few
/// hundred.
pub(super) const MAX_FIELDS: u32 = 64 << 10;

/// The most bytes to read from a socket at once. A TLS session reads 4 KiB at a time, which would mean a hundred system
/// calls for a long prompt.
pub(super) const READ_CHUNK_BYTES: usize = 64 << 10;

/// The limits of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most connections. Further ones wait in the system's queue.
    pub connections: usize,
    /// The most streams of all connections. Further ones end with the gRPC status `UNAVAILABLE`.
    pub streams: usize,
    /// The time limit for the first stream of a connection, and for the first message of a stream.
    pub first: Duration,
    /// The time after which a connection without a stream gets a GOAWAY.
    pub idle: Duration,
    /// The time without a byte after which the peer gets a PING.
    pub silence: Duration,
    /// The time limit for the answer to a PING, and for closing the connection after a GOAWAY.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            streams: 1 << 16,
            first: Duration::from_secs(30),
            idle: Duration::from_mins(10),
            silence: Duration::from_mins(1),
            answer: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// The time between two checks of a connection.
    pub(super) fn period(&self) -> Duration {
        let shortest = self.first.min(self.idle).min(self.silence).min(self.answer);
        // So a limit is noticed at most a quarter of it too late.
        (shortest / 4).clamp(Duration::from_millis(1), Duration::from_secs(10))
    }
}

/// Counts open streams. Clones share the count.
#[derive(Debug, Default, Clone)]
pub(crate) struct StreamCount(Arc<AtomicUsize>);

/// Counts a stream as open.
#[derive(Debug)]
pub(crate) struct CountedStream(Arc<AtomicUsize>);

impl StreamCount {
    /// Counts another stream, unless there are as many as `limit`.
    pub(crate) fn take(&self, limit: usize) -> Option<CountedStream> {
        let more = |open: usize| (open < limit).then_some(open + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(CountedStream(Arc::clone(&self.0)))
    }
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The activity of a connection since the last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Activity {
    /// Streams that are open.
    pub(super) streams: usize,
    /// Streams that were ever opened.
    pub(super) opened: u64,
    /// Whether the peer sent anything.
    pub(super) has_received: bool,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Stay,
    /// Send a PING.
    Ping,
    /// Send a GOAWAY.
    Leave,
    /// Close the connection, for this reason.
    Close(&'static str),
}

/// The timers of one connection.
#[derive(Debug, Default)]
pub(super) struct Timers {
    age: Duration,
    idle: Duration,
    silent: Duration,
    opened: u64,
    pinged: bool,
    leaving: bool,
}

impl Timers {
    /// Checks a connection. `passed` is the time since the last check.
    pub(super) fn check(&mut self, passed: Duration, limits: &Limits, seen: Activity) -> Verdict {
        self.age += passed;
        let busy = seen.streams > 0 || seen.opened > self.opened;
        self.opened = seen.opened;
        self.idle = if busy { Duration::ZERO } else { self.idle + passed };
        self.silent = if seen.has_received { Duration::ZERO } else { self.silent + passed };
        // Whatever comes is as good as the answer to a PING.
        self.pinged &= !seen.has_received;
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
        first: Duration::from_secs(3),
        idle: Duration::from_secs(5),
        silence: Duration::from_secs(4),
        answer: Duration::from_secs(2),
    };

    fn verdicts(looks: impl IntoIterator<Item = Activity>) -> Vec<Verdict> {
        let mut timers = Timers::default();
        looks.into_iter().map(|seen| timers.check(SECOND, &LIMITS, seen)).collect()
    }

    #[test]
    fn a_connection_must_open_a_stream_soon() {
        let slow = Activity { streams: 0, opened: 0, has_received: true };
        let seen = verdicts([slow; 3]);
        assert_eq!(seen, [Verdict::Stay, Verdict::Stay, Verdict::Close("it has opened no stream")]);
    }

    #[test]
    fn a_connection_without_streams_is_told_to_go_and_closed_if_it_stays() {
        let idle = Activity { streams: 0, opened: 1, has_received: true };
        let busy = Activity { streams: 1, ..idle };
        let mut seen = verdicts([busy].into_iter().chain([idle; 7]));
        assert_eq!(seen.pop(), Some(Verdict::Close("it has no stream")));
        assert_eq!(seen.split_off(5), [Verdict::Leave, Verdict::Stay]);
        assert_eq!(seen, [Verdict::Stay; 5]);
        let short = (1..20).map(|opened| Activity { streams: 0, opened, has_received: true });
        assert!(
            verdicts(short).iter().all(|verdict| *verdict == Verdict::Stay),
            "each second had its stream"
        );
    }

    #[test]
    fn a_silent_peer_is_asked_once_and_closed_without_an_answer() {
        let silent = Activity { streams: 1, opened: 1, has_received: false };
        let received = Activity { has_received: true, ..silent };
        let seen = verdicts([silent; 6]);
        assert_eq!(seen[3..], [Verdict::Ping, Verdict::Stay, Verdict::Close("the peer does not answer")]);
        let answers = [[silent; 4].as_slice(), &[received]].concat().repeat(3);
        let pings = verdicts(answers).iter().filter(|verdict| **verdict == Verdict::Ping).count();
        assert_eq!(pings, 3);
    }

    #[test]
    fn streams_are_limited_and_a_stream_that_ends_makes_room() {
        let stream_count = StreamCount::default();
        let first = stream_count.take(1).unwrap();
        assert!(stream_count.take(1).is_none());
        drop(first);
        assert!(stream_count.take(1).is_some());
    }
}
