//! ZMTP 3, as far as KV events need it: one connection, the NULL mechanism, and messages of limited size.
//!
//! A [`Connection`] takes the bytes from a peer and returns their meaning. The bytes for the peer collect in
//! [`Connection::output`]. The connection announces version 3.0, so that peers send subscriptions as messages. It also
//! understands the subscription commands of version 3.1.

/// The length of the greeting: signature, version, mechanism, role and filler.
const GREETING: usize = 64;
/// The memory for input that a connection keeps between messages.
const RETAINED_INPUT_BYTES: usize = 64 << 10;
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// The kind of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Socket {
    /// Receives the topics to which it has subscribed.
    Sub,
    /// Sends to all subscribers.
    Pub,
    /// Sends requests.
    Dealer,
    /// Answers several peers.
    Router,
}

impl Socket {
    fn name(self) -> &'static str {
        match self {
            Self::Sub => "SUB",
            Self::Pub => "PUB",
            Self::Dealer => "DEALER",
            Self::Router => "ROUTER",
        }
    }

    fn accepts_peer(self, peer: &str) -> bool {
        match self {
            Self::Sub => matches!(peer, "PUB" | "XPUB"),
            Self::Pub => matches!(peer, "SUB" | "XSUB"),
            Self::Dealer => matches!(peer, "ROUTER" | "DEALER" | "REP"),
            Self::Router => matches!(peer, "DEALER" | "REQ" | "ROUTER"),
        }
    }
}

/// The limits for messages from a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The most bytes in all frames of one message.
    pub message: usize,
    /// The most frames in one message.
    pub frames: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { message: 16 << 20, frames: 16 }
    }
}

/// The peer has violated the protocol. The connection must be closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpError {
    /// The peer speaks another protocol.
    #[error("the peer does not speak ZMTP 3: its greeting starts with other bytes")]
    Greeting,
    /// The peer speaks an old version.
    #[error("the peer speaks ZMTP {0}; version 3 or newer is needed")]
    Version(u8),
    /// The peer requires authentication.
    #[error("the peer asks for the security mechanism `{0}`; only NULL is supported")]
    Mechanism(String),
    /// The peer's socket has an incompatible type.
    #[error("the peer's socket has type `{peer}`, which cannot connect to a {own} socket")]
    Incompatible {
        /// The peer's type.
        peer: String,
        /// This connection's type.
        own: &'static str,
    },
    /// The peer has refused the connection.
    #[error("the peer refused the connection: {0}")]
    Refused(String),
    /// A frame or a message is too long.
    #[error("a message of more than {0} bytes or frames")]
    TooLong(usize),
    /// The bytes are invalid.
    #[error("a malformed {0}")]
    Malformed(&'static str),
}

/// Something that was received from the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZmtpEvent {
    /// The handshake is complete.
    Ready,
    /// A message, frame by frame.
    Message(Vec<Vec<u8>>),
    /// The peer, a subscriber, subscribes to messages whose first frame starts with this topic.
    Subscribe(Vec<u8>),
    /// The peer unsubscribes from this topic.
    Unsubscribe(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    Handshake,
    Ready,
}

/// The flags of a frame, its body, and the bytes after it.
type Frame<'a> = (u8, &'a [u8], &'a [u8]);

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    bounds: Bounds,
    state: State,
    input: Vec<u8>,
    frames: Vec<Vec<u8>>,
    /// The bytes to send to the peer, which the caller must take.
    pub output: Vec<u8>,
}

// === impl Connection ===

impl Connection {
    /// Creates a connection of this kind, with the greeting in its output.
    pub fn new(socket: Socket, bounds: Bounds) -> Self {
        // As libzmq sends it: ff, a length of 1 for peers of ZMTP 1, 7f, and version 3.0.
        let mut output = vec![0; GREETING];
        output[0] = 0xff;
        output[8] = 1;
        output[9] = 0x7f;
        output[10] = 3;
        output[12..16].copy_from_slice(b"NULL");
        Self { socket, bounds, state: State::Greeting, input: Vec::new(), frames: Vec::new(), output }
    }

    /// The memory of the message that has not come whole, in bytes.
    pub fn buffered(&self) -> usize {
        self.input.capacity() + self.frames.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Whether the handshake is complete, so that messages can be sent.
    pub fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Appends a message to the output. Must only be called if the connection is ready.
    pub fn send<F: AsRef<[u8]>>(&mut self, frames: &[F]) {
        for (index, frame) in frames.iter().enumerate() {
            let flags = if index + 1 < frames.len() { MORE } else { 0 };
            self.frame(flags, frame.as_ref());
        }
    }

    /// Appends a subscription to the output, for messages whose first frame starts with `topic`.
    pub fn subscribe(&mut self, topic: &[u8]) {
        let mut frame = Vec::with_capacity(topic.len() + 1);
        frame.push(1);
        frame.extend_from_slice(topic);
        self.frame(0, &frame);
    }

    /// Handles bytes from the peer, which may come in pieces of any size. After an error the connection must be closed.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<ZmtpEvent>, ZmtpError> {
        self.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.input);
        let mut rest = input.as_slice();
        let mut received = Vec::new();
        if self.state == State::Greeting {
            // A peer of ZMTP 1 may send ff, too. Its tenth byte is then a flag with the last bit clear (23/ZMTP, "Backwards
            // Interoperability").
            if rest.first().is_some_and(|&first| first != 0xff)
                || rest.get(9).is_some_and(|&last| last & 1 == 0)
            {
                return Err(ZmtpError::Greeting);
            }
            if let Some(&version) = rest.get(10)
                && version < 3
            {
                return Err(ZmtpError::Version(version));
            }
            if let Some((greeting, after)) = rest.split_at_checked(GREETING) {
                let name = greeting[12..32].split(|&byte| byte == 0).next().unwrap_or_default();
                if name != b"NULL" {
                    return Err(ZmtpError::Mechanism(String::from_utf8_lossy(name).into_owned()));
                }
                rest = after;
                self.state = State::Handshake;
                self.ready();
            }
        }
        if self.state != State::Greeting {
            while let Some((flags, body, after)) = self.next(rest)? {
                rest = after;
                received.extend(self.take(flags, body)?);
            }
        }
        let used = input.len() - rest.len();
        input.drain(..used);
        // A long message must not keep its memory after it was read.
        if input.capacity() > RETAINED_INPUT_BYTES && input.len() < RETAINED_INPUT_BYTES {
            input.shrink_to(RETAINED_INPUT_BYTES);
        }
        self.input = input;
        Ok(received)
    }

    /// Returns the next frame if it is complete.
    fn next<'a>(&self, bytes: &'a [u8]) -> Result<Option<Frame<'a>>, ZmtpError> {
        let Some((&flags, rest)) = bytes.split_first() else { return Ok(None) };
        // The other bits are reserved and zero, and a command has no frame after it (23/ZMTP, "Framing").
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & COMMAND != 0 && flags & MORE != 0 {
            return Err(ZmtpError::Malformed("frame"));
        }
        let (size, rest) = if flags & LONG == 0 {
            let Some((&size, rest)) = rest.split_first() else { return Ok(None) };
            (u64::from(size), rest)
        } else {
            let Some((size, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
            (u64::from_be_bytes(*size), rest)
        };
        let held: usize = self.frames.iter().map(Vec::len).sum();
        let size = usize::try_from(size).ok().filter(|size| *size <= self.bounds.message - held);
        let size = size.ok_or(ZmtpError::TooLong(self.bounds.message))?;
        Ok(rest.split_at_checked(size).map(|(body, after)| (flags, body, after)))
    }

    fn take(&mut self, flags: u8, body: &[u8]) -> Result<Option<ZmtpEvent>, ZmtpError> {
        if flags & COMMAND != 0 {
            return self.command(body);
        }
        if self.state != State::Ready {
            return Err(ZmtpError::Malformed("handshake: a message came before READY"));
        }
        if self.frames.len() >= self.bounds.frames {
            return Err(ZmtpError::TooLong(self.bounds.frames));
        }
        self.frames.push(body.to_vec());
        if flags & MORE != 0 {
            return Ok(None);
        }
        let frames = std::mem::take(&mut self.frames);
        if self.socket == Socket::Pub {
            // A subscriber only sends subscriptions; a publisher ignores everything else.
            return Ok(match frames.first().and_then(|frame| frame.split_first()) {
                Some((1, topic)) => Some(ZmtpEvent::Subscribe(topic.to_vec())),
                Some((0, topic)) => Some(ZmtpEvent::Unsubscribe(topic.to_vec())),
                _ => None,
            });
        }
        Ok(Some(ZmtpEvent::Message(frames)))
    }

    fn command(&mut self, body: &[u8]) -> Result<Option<ZmtpEvent>, ZmtpError> {
        let malformed = ZmtpError::Malformed("command");
        let (name, data) = short(body).ok_or(malformed)?;
        match (name, self.state) {
            (b"READY", State::Handshake) => {
                let peer = socket_type(data).ok_or(ZmtpError::Malformed("READY command"))?;
                if !self.socket.accepts_peer(&peer) {
                    return Err(ZmtpError::Incompatible { peer, own: self.socket.name() });
                }
                self.state = State::Ready;
                Ok(Some(ZmtpEvent::Ready))
            }
            (b"ERROR", _) => {
                let reason = short(data).map(|(reason, _)| reason).unwrap_or_default();
                Err(ZmtpError::Refused(String::from_utf8_lossy(reason).into_owned()))
            }
            (b"SUBSCRIBE", State::Ready) if self.socket == Socket::Pub => {
                Ok(Some(ZmtpEvent::Subscribe(data.to_vec())))
            }
            (b"CANCEL", State::Ready) if self.socket == Socket::Pub => {
                Ok(Some(ZmtpEvent::Unsubscribe(data.to_vec())))
            }
            (b"PING", State::Ready) => {
                let mut pong = b"\x04PONG".to_vec();
                // After the two bytes of the TTL follows a context of at most 16 bytes, which the answer repeats.
                pong.extend(data.iter().skip(2).take(16));
                self.frame(COMMAND, &pong);
                Ok(None)
            }
            (_, State::Ready) => Ok(None),
            _ => Err(ZmtpError::Malformed("handshake: READY was expected")),
        }
    }

    fn ready(&mut self) {
        let mut body = b"\x05READY".to_vec();
        for (name, value) in [("Socket-Type", self.socket.name()), ("Identity", "")] {
            // Names and values are constants and short.
            body.push(u8::try_from(name.len()).unwrap_or_default());
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(&u32::try_from(value.len()).unwrap_or_default().to_be_bytes());
            body.extend_from_slice(value.as_bytes());
        }
        self.frame(COMMAND, &body);
    }

    fn frame(&mut self, flags: u8, body: &[u8]) {
        if let Ok(size) = u8::try_from(body.len()) {
            self.output.extend_from_slice(&[flags, size]);
        } else {
            self.output.push(flags | LONG);
            self.output.extend_from_slice(&(body.len() as u64).to_be_bytes());
        }
        self.output.extend_from_slice(body);
    }
}

/// Splits off a text that has its length in one byte before it. Returns the text and the rest.
fn short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// Returns the property `Socket-Type` of a READY command.
fn socket_type(mut properties: &[u8]) -> Option<String> {
    let mut found = None;
    while !properties.is_empty() {
        let (name, rest) = short(properties)?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            found = Some(String::from_utf8_lossy(value).into_owned());
        }
        properties = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exchanges bytes between two connections, in pieces of `piece` bytes, until both have no more output.
    fn exchange(left: &mut Connection, right: &mut Connection, piece: usize) -> [Vec<ZmtpEvent>; 2] {
        let mut received = [Vec::new(), Vec::new()];
        while !left.output.is_empty() || !right.output.is_empty() {
            for bytes in std::mem::take(&mut left.output).chunks(piece) {
                received[1].extend(right.receive(bytes).unwrap());
            }
            for bytes in std::mem::take(&mut right.output).chunks(piece) {
                received[0].extend(left.receive(bytes).unwrap());
            }
        }
        received
    }

    #[test]
    fn a_subscriber_and_a_publisher_understand_each_other_in_pieces_of_any_size() {
        for piece in [1, 7, 64, 100_000] {
            let mut sub = Connection::new(Socket::Sub, Bounds::default());
            let mut publisher = Connection::new(Socket::Pub, Bounds::default());
            assert_eq!(exchange(&mut sub, &mut publisher, piece), [[ZmtpEvent::Ready], [ZmtpEvent::Ready]]);
            sub.subscribe(b"kv@");
            publisher.send(&[b"kv@a".to_vec(), vec![0; 8], vec![7; 70_000]]);
            let received = exchange(&mut sub, &mut publisher, piece);
            assert_eq!(received[1], [ZmtpEvent::Subscribe(b"kv@".to_vec())]);
            assert_eq!(
                received[0],
                [ZmtpEvent::Message(vec![b"kv@a".to_vec(), vec![0; 8], vec![7; 70_000]])]
            );
        }
    }

    #[test]
    fn invalid_handshakes_are_refused() {
        let start = || Connection::new(Socket::Sub, Bounds { message: 100, frames: 2 });
        assert_eq!(start().receive(b"HTTP/1.1 400"), Err(ZmtpError::Greeting));
        let mut other = start();
        let mut dealer = Connection::new(Socket::Dealer, Bounds::default());
        let greeting = std::mem::take(&mut other.output);
        dealer.receive(&greeting).unwrap();
        assert!(matches!(other.receive(&dealer.output), Err(ZmtpError::Incompatible { .. })));
        let mut greeting = greeting;
        greeting[12..17].copy_from_slice(b"CURVE");
        assert_eq!(start().receive(&greeting), Err(ZmtpError::Mechanism("CURVE".into())));
        greeting[10] = 2;
        assert_eq!(start().receive(&greeting), Err(ZmtpError::Version(2)));
    }

    #[test]
    fn a_long_message_counts_while_it_comes_and_gives_its_memory_back() {
        let (mut sub, mut publisher) = (
            Connection::new(Socket::Sub, Bounds::default()),
            Connection::new(Socket::Pub, Bounds::default()),
        );
        exchange(&mut sub, &mut publisher, 1000);
        publisher.send(&[b"kv@".to_vec(), vec![7; 1 << 20]]);
        let bytes = std::mem::take(&mut publisher.output);
        let (most, rest) = bytes.split_at(bytes.len() - 1);
        sub.receive(most).unwrap();
        assert!(sub.buffered() >= 1 << 20, "{}", sub.buffered());
        assert_eq!(sub.receive(rest).unwrap().len(), 1);
        assert!(sub.buffered() <= RETAINED_INPUT_BYTES, "{}", sub.buffered());
    }

    #[test]
    fn long_messages_are_refused_before_they_are_stored() {
        let ready = || {
            let mut sub = Connection::new(Socket::Sub, Bounds { message: 100, frames: 2 });
            let mut publisher = Connection::new(Socket::Pub, Bounds::default());
            exchange(&mut sub, &mut publisher, 1000);
            sub
        };
        let mut long = vec![LONG];
        long.extend(u64::MAX.to_be_bytes());
        assert_eq!(ready().receive(&long), Err(ZmtpError::TooLong(100)));
        let mut many = ready();
        assert_eq!(many.receive(&[MORE, 1, 0, MORE, 1, 0, 0, 1, 0]), Err(ZmtpError::TooLong(2)));
        let mut sum = ready();
        let mut bytes = vec![MORE, 60];
        bytes.extend([0; 60]);
        bytes.extend([0, 60]);
        assert_eq!(sum.receive(&bytes), Err(ZmtpError::TooLong(100)));
    }
}
