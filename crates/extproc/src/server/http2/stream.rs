//! One gRPC call with its incoming and outgoing messages.

use std::{io::Read, sync::Arc, time::Duration};

use bytes::Bytes;
use longboat_accept::{Budget, MemoryReservation};
use prost::{DecodeError, Message};

use super::fields::Fields;
use crate::{
    message::{Action, Incoming, Reply},
    server::{Exchange, HealthCheck, Outbox, limits::CountedStream},
    wire::{HealthCheckRequest, ProcessingRequest},
};

/// The length of a message's prefix: whether the message is compressed, and its length.
const PREFIX: usize = 5;

/// The most bytes to allocate for a message before they arrive. Proxies send bodies in smaller pieces.
const MAX_PREALLOCATED_BYTES: usize = 128 << 10;

/// What a queued answer takes in memory beside its bytes.
const ANSWER: usize = size_of::<Reply>() + 64;

/// The gRPC status with which a call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: u8,
    pub(super) message: String,
}

impl Status {
    pub(super) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

const OK: u8 = 0;
pub(super) const DEADLINE_EXCEEDED: u8 = 4;
pub(super) const UNKNOWN: u8 = 2;
pub(super) const RESOURCE_EXHAUSTED: u8 = 8;
const OUT_OF_RANGE: u8 = 11;
pub(super) const UNIMPLEMENTED: u8 = 12;
/// gRPC's status for streams that end with an error of HTTP/2.
pub(super) const INTERNAL: u8 = 13;
pub(super) const UNAVAILABLE: u8 = 14;

/// What answers a call.
pub(super) enum Method<E> {
    Process(E),
    Health(HealthCheck),
}

/// A call in progress.
pub(super) struct Call<E> {
    pub(super) method: Method<E>,
    pub(super) out: Outbox,
    pub(super) input: Input,
    /// Whether the caller sends nothing more.
    pub(super) remote_closed: bool,
    /// The final status, which is sent after the queued messages.
    pub(super) end: Option<Status>,
    /// Whether the response's headers were sent.
    pub(super) answered: bool,
    /// The encoded message that is being sent.
    pub(super) sending: Vec<u8>,
    pub(super) sent: usize,
    /// The send window of this stream.
    pub(super) window: i64,
    /// Received bytes for which the peer has not got new window yet.
    pub(super) owed: u32,
    /// The bytes that must still come, if the caller has announced a length.
    announced: Option<u64>,
    /// Whether the call is in a list of calls that have something to send.
    pub(super) listed: bool,
    /// The memory of answers that wait for the caller's window. `None` if none waits.
    pub(super) waiting: Option<MemoryReservation>,
    /// How many of the queued answers are weighed, and their weight.
    weighed: usize,
    weight: usize,
    /// The time for which the stream has waited for its first message. `None` after the first message.
    pub(super) waited: Option<Duration>,
    _counted: CountedStream,
}

impl<E: Exchange> Call<E> {
    pub(super) fn new(method: Method<E>, fields: &Fields, window: i64, counted: CountedStream) -> Self {
        Self {
            method,
            out: Outbox::default(),
            input: Input { gzip: fields.gzip, ..Input::default() },
            remote_closed: false,
            end: None,
            answered: false,
            sending: Vec::new(),
            sent: 0,
            window,
            owed: 0,
            announced: fields.content_length,
            listed: false,
            waiting: None,
            weighed: 0,
            weight: 0,
            waited: Some(Duration::ZERO),
            _counted: counted,
        }
    }

    /// Counts received bytes. Returns whether they agree with the length that the caller has announced.
    pub(super) fn counts(&mut self, bytes: usize) -> bool {
        let Some(announced) = self.announced else { return true };
        let rest = announced.checked_sub(bytes as u64);
        self.announced = rest;
        rest.is_some_and(|rest| rest == 0 || !self.remote_closed)
    }

    /// Processes received bytes, and answers each complete message.
    pub(super) fn receive(&mut self, bytes: &[u8], longest: usize, memory: &Arc<Budget>) {
        let Self { input, method, out, end, waited, sending, .. } = self;
        let received = input.push(bytes, longest, memory, |message| {
            match method {
                Method::Process(exchange) => {
                    let message = ProcessingRequest::decode(message)?;
                    // Messages after the end are ignored.
                    if !out.is_finished()
                        && let Some(incoming) = Incoming::from_wire(message)
                    {
                        exchange.handle(incoming, out);
                    }
                }
                Method::Health(check) => {
                    let HealthCheckRequest { service } = HealthCheckRequest::decode(message)?;
                    // A `HealthCheckResponse` has one field, the status: 1 for serving, 2 for not serving. A caller asks once.
                    if sending.is_empty() {
                        sending.extend_from_slice(&[0, 0, 0, 0, 2, 8, if check(&service) { 1 } else { 2 }]);
                    }
                }
            }
            *waited = None;
            Ok(())
        });
        if let Err(error) = received {
            *end = Some(Status::new(UNKNOWN, error));
        }
    }

    /// Called when the call ends with this gRPC status.
    pub(super) fn ended(&mut self, status: u8) {
        if let Method::Process(exchange) = &mut self.method {
            exchange.ended(status);
        }
    }

    /// Sets the final status if the exchange has finished, or if its caller sends nothing more.
    pub(super) fn settle(&mut self) {
        if self.end.is_none() && (self.out.is_finished() || self.remote_closed) {
            self.end = Some(Status::new(OK, ""));
        }
    }

    /// Encodes the next message if no message is being sent. Returns whether there is a message to send. A message that is
    /// too long ends the call.
    pub(super) fn load(&mut self, longest: usize) -> bool {
        if self.sent < self.sending.len() {
            return true;
        }
        self.sending.clear();
        self.sent = 0;
        let Some(reply) = self.out.pop() else { return false };
        // Answers that came after the last `hold` have not been weighed.
        if self.weighed > 0 {
            self.weighed -= 1;
            self.weight -= weight(&reply);
        }
        let message = reply.into_wire();
        let length = message.encoded_len();
        if length > longest {
            self.out.queue.clear();
            (self.weighed, self.weight) = (0, 0);
            self.end = Some(Status::new(
                OUT_OF_RANGE,
                format!("a message of {length} bytes is longer than {longest}"),
            ));
            return false;
        }
        self.sending.reserve_exact(PREFIX + length);
        self.sending.push(0);
        self.sending.extend_from_slice(&u32::try_from(length).unwrap_or_default().to_be_bytes());
        message.encode_raw(&mut self.sending);
        true
    }
}

impl<E> Call<E> {
    /// Counts the memory of the answers that wait for the caller's window. `None` if there is too little. Each answer is
    /// weighed once, however often the call is blocked.
    pub(super) fn hold(&mut self, memory: &Arc<Budget>) -> Option<()> {
        self.weight += self.out.queue.range(self.weighed..).map(weight).sum::<usize>();
        self.weighed = self.out.queue.len();
        let bytes = self.weight + self.sending.len();
        match &mut self.waiting {
            Some(held) => held.resize(bytes),
            None => memory.hold(bytes).map(|held| self.waiting = Some(held)),
        }
    }
}

/// Returns the memory of a queued answer. The body of a request is not copied until it is sent, and the exchange has counted
/// it.
fn weight(reply: &Reply) -> usize {
    let bytes = match reply.action {
        Action::RequestBody { .. } => 0,
        _ => reply.size(),
    };
    ANSWER + bytes
}

/// The partly received message of a call.
#[derive(Debug, Default)]
pub(super) struct Input {
    prefix: [u8; PREFIX],
    have: usize,
    /// The payload so far, after the prefix is complete.
    message: Vec<u8>,
    /// The memory budget of a message that is not complete yet.
    held: Option<MemoryReservation>,
    gzip: bool,
}

impl Input {
    /// Processes received bytes. After an error, the rest is not read.
    fn push(
        &mut self,
        mut bytes: &[u8],
        longest: usize,
        memory: &Arc<Budget>,
        mut take: impl FnMut(Bytes) -> Result<(), DecodeError>,
    ) -> Result<(), String> {
        loop {
            if self.have < PREFIX {
                let part = bytes.len().min(PREFIX - self.have);
                self.prefix[self.have..self.have + part].copy_from_slice(&bytes[..part]);
                self.have += part;
                bytes = &bytes[part..];
                if self.have < PREFIX {
                    return Ok(());
                }
                let length = self.length();
                if length > longest {
                    return Err(format!("a message of {length} bytes is longer than {longest}"));
                }
                self.message = Vec::with_capacity(length.min(MAX_PREALLOCATED_BYTES));
                if bytes.len() < length {
                    self.held = Some(hold(memory, self.message.capacity())?);
                }
            }
            let part = bytes.len().min(self.length() - self.message.len());
            if self.message.len() + part > self.message.capacity() {
                // The message is longer than the first allocation, so the rest of it is allocated now.
                // Released first, so that the same bytes do not count twice.
                self.held = None;
                self.held = Some(hold(memory, self.length())?);
                self.message.reserve_exact(self.length() - self.message.len());
            }
            self.message.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            if self.message.len() < self.length() {
                return Ok(());
            }
            self.have = 0;
            self.held = None;
            // Given away and not kept for the next message: bodies are slices of it.
            let message = std::mem::take(&mut self.message);
            let message = match self.prefix[0] {
                0 => message,
                1 if self.gzip => unzip(&message, longest)?,
                _ => return Err("a compressed message without an encoding in the headers".to_owned()),
            };
            take(Bytes::from(message)).map_err(|error| error.to_string())?;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    fn length(&self) -> usize {
        let [_, length @ ..] = self.prefix;
        u32::from_be_bytes(length) as usize
    }
}

fn hold(memory: &Arc<Budget>, bytes: usize) -> Result<MemoryReservation, String> {
    let limit = memory.limit();
    memory.hold(bytes).ok_or_else(|| format!("more than {limit} bytes of messages are in flight"))
}

fn unzip(message: &[u8], longest: usize) -> Result<Vec<u8>, String> {
    let mut whole = Vec::new();
    // One byte more than allowed tells a message of the longest length from one that was cut.
    let most = u64::try_from(longest).unwrap_or(u64::MAX).saturating_add(1);
    flate2::read::GzDecoder::new(message)
        .take(most)
        .read_to_end(&mut whole)
        .map_err(|error| error.to_string())?;
    if whole.len() > longest {
        return Err(format!("a message is longer than {longest} bytes after decompression"));
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_MESSAGE_BYTES: usize = 1 << 20;

    /// Starts a message of this length with its first bytes.
    fn begin(memory: &Arc<Budget>, length: usize, came: usize) -> Result<Input, String> {
        let mut input = Input::default();
        let prefix = [&[0][..], &u32::try_from(length).unwrap().to_be_bytes()].concat();
        input.push(&prefix, MAX_MESSAGE_BYTES, memory, |_| panic!("nothing is complete"))?;
        input.push(&vec![0; came], MAX_MESSAGE_BYTES, memory, |_| panic!("nothing is complete"))?;
        Ok(input)
    }

    #[test]
    fn messages_that_never_end_do_not_fill_memory() {
        let memory = Budget::new(MAX_MESSAGE_BYTES + 3 * MAX_PREALLOCATED_BYTES);
        let announced: Vec<_> = (0..3).map(|_| begin(&memory, MAX_MESSAGE_BYTES, 1).unwrap()).collect();
        assert_eq!(memory.held(), 3 * MAX_PREALLOCATED_BYTES, "what is announced is believed in part");
        let long = begin(&memory, MAX_MESSAGE_BYTES, MAX_PREALLOCATED_BYTES + 1).unwrap();
        assert_eq!(memory.held(), MAX_MESSAGE_BYTES + 3 * MAX_PREALLOCATED_BYTES);
        assert!(begin(&memory, 100, 1).unwrap_err().contains("in flight"));
        drop(announced);
        drop(long);
        // An unknown field in two parts.
        let mut short = Input::default();
        let mut complete = 0;
        short
            .push(&[0, 0, 0, 0, 4, 0x7a], MAX_MESSAGE_BYTES, &memory, |_| panic!("nothing is complete"))
            .unwrap();
        assert_eq!(memory.held(), 4);
        short
            .push(&[2, 0, 0], MAX_MESSAGE_BYTES, &memory, |_| {
                complete += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!((complete, memory.held()), (1, 0), "what is complete is held by its reader");
    }
}
