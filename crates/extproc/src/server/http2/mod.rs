//! Longboat's own HTTP/2 server for ext_proc. A general-purpose one costs more per message than the message itself.
//!
//! One future serves all calls of a connection. Whenever it runs, it reads the available bytes, answers them in place, and
//! writes the answers at once. Calls have no task, channel or timer of their own. `core` is the protocol without the socket,
//! `stream` a gRPC call, `fields` the fields of its headers; `hpack`, `huffman` and `frame` are the encodings.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use longboat_accept::MemoryReservation;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time,
};
use tokio_util::sync::CancellationToken;

use super::{
    Processor,
    limits::{Activity, Timers, Verdict},
    options::ServerState,
};

mod core;
mod fields;
mod frame;
pub(crate) mod fuzzing;
mod hpack;
mod huffman;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod peer;
mod stream;

use self::core::Core;

/// The size of the read buffer. It holds several frames of the largest size.
const INPUT: usize = 64 << 10;
/// How many reads may precede a write, so that one long body does not delay the answers to others.
const MAX_READS: usize = 16;
/// The capacity that the write buffer keeps.
const RETAINED_BUFFER_BYTES: usize = 256 << 10;

/// Serves a connection until it ends.
pub(super) async fn connection<P: Processor>(
    io: impl AsyncRead + AsyncWrite + Unpin,
    shared: Arc<ServerState<P>>,
    shutdown: CancellationToken,
) {
    let limits = shared.options.limits;
    let mut connection = Connection {
        io,
        core: Core::new(shared),
        input: vec![0; INPUT],
        have: 0,
        written: 0,
        ending: false,
        has_received: false,
        held: None,
    };
    let period = limits.period();
    let mut looks = time::interval_at(time::Instant::now() + period, period);
    // After the machine has slept, all missed ticks at once would close connections that had no chance to say anything.
    looks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    let mut timers = Timers::default();
    let mut shutdown_requested = pin!(shutdown.cancelled());
    let mut leaving = false;
    let ended = poll_fn(|context| {
        if !leaving && shutdown_requested.as_mut().poll(context).is_ready() {
            leaving = true;
            connection.core.leave();
        }
        // Polled until it is pending: only then does it wake this future.
        while looks.poll_tick(context).is_ready() {
            let seen = connection.seen();
            match timers.check(period, &limits, seen) {
                Verdict::Stay => {}
                Verdict::Ping => connection.core.ping(),
                Verdict::Leave => connection.core.leave(),
                Verdict::Close(reason) => {
                    tracing::debug!(reason, "A connection is closed.");
                    return Poll::Ready(Ok(()));
                }
            }
            // A peer that does not read why its connection ends gets no more time for it.
            if connection.ending {
                return Poll::Ready(Ok(()));
            }
            connection.core.expire(period, limits.first);
        }
        connection.turn(context)
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "Connection ended.");
    }
}

struct Connection<P: Processor, S> {
    io: S,
    core: Core<P>,
    input: Vec<u8>,
    /// The number of input bytes that do not form a complete frame yet.
    have: usize,
    /// The number of output bytes that are already written.
    written: usize,
    /// Whether the connection ends with an error: it reads no more, and only tells the peer why.
    ending: bool,
    /// Whether bytes have come since the last look.
    has_received: bool,
    /// The memory of output that the peer does not read.
    held: Option<MemoryReservation>,
}

impl<P: Processor, S> Connection<P, S> {
    fn seen(&mut self) -> Activity {
        let has_received = std::mem::take(&mut self.has_received);
        Activity { streams: self.core.calls(), opened: self.core.opened(), has_received }
    }
}

impl<P: Processor, S: AsyncRead + AsyncWrite + Unpin> Connection<P, S> {
    fn turn(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // First, because it registers the waker: an exchange that ends its wait from here on wakes the connection.
        self.core.poll(context);
        loop {
            let mut may_read = false;
            if !self.ending {
                match self.read(context)? {
                    Read::All => {}
                    Read::Some => may_read = true,
                    Read::End => return Poll::Ready(Ok(())),
                }
            }
            self.core.fill();
            let all = self.write(context)?;
            if all && (self.ending || self.core.is_done()) {
                return Pin::new(&mut self.io).poll_shutdown(context);
            }
            // Otherwise the socket has the waker: for more bytes, or for room to write.
            if !(may_read || all && self.core.can_fill()) {
                return Poll::Pending;
            }
        }
    }

    /// Reads and processes the available bytes.
    fn read(&mut self, context: &mut Context<'_>) -> io::Result<Read> {
        for _ in 0..MAX_READS {
            let mut room = ReadBuf::new(&mut self.input[self.have..]);
            match Pin::new(&mut self.io).poll_read(context, &mut room) {
                Poll::Pending => return Ok(Read::All),
                Poll::Ready(read) => read?,
            }
            if room.filled().is_empty() {
                return Ok(Read::End);
            }
            self.has_received = true;
            let have = self.have + room.filled().len();
            match self.core.receive(&self.input[..have]) {
                Ok(taken) => {
                    // What is left is a part of one frame, which is shorter than the buffer.
                    self.input.copy_within(taken..have, 0);
                    self.have = have - taken;
                }
                Err(failed) => {
                    self.core.fail(failed);
                    self.ending = true;
                    return Ok(Read::All);
                }
            }
        }
        Ok(Read::Some)
    }

    /// Writes the output. Returns whether all of it was written.
    fn write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        while self.written < self.core.output().len() {
            let output = &self.core.output()[self.written..];
            match Pin::new(&mut self.io).poll_write(context, output) {
                Poll::Pending => {
                    let bytes = self.core.output().len();
                    return self.hold(bytes).map(|()| false);
                }
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => self.written += written?,
            }
        }
        self.written = 0;
        self.held = None;
        let output = self.core.output();
        output.clear();
        output.shrink_to(RETAINED_BUFFER_BYTES);
        match Pin::new(&mut self.io).poll_flush(context) {
            Poll::Pending => Ok(false),
            Poll::Ready(flushed) => flushed.map(|()| true),
        }
    }
}

impl<P: Processor, S> Connection<P, S> {
    /// Counts the memory of output that the peer does not read.
    fn hold(&mut self, bytes: usize) -> io::Result<()> {
        let held = match &mut self.held {
            Some(held) => held.resize(bytes),
            None => self.core.memory().hold(bytes).map(|held| self.held = Some(held)),
        };
        held.ok_or_else(|| io::Error::other("output that peers do not read takes too much memory"))
    }
}

enum Read {
    /// All available bytes were read.
    All,
    /// There may be more bytes.
    Some,
    /// The peer has closed the connection.
    End,
}

#[cfg(test)]
mod tests;
