//! Detects HTTP/1 requests with ambiguous framing from their heads on the wire.
//!
//! hyper silently drops `Content-Length` if a request also has `Transfer-Encoding`. A server that decides otherwise sees a
//! different request there, so attackers can smuggle requests past proxies. Therefore [`FramingStream`] reads the heads before
//! hyper does, and adds a header line to such a request. [`is_ambiguous`] finds the line, and the service refuses that
//! request alone.

use std::{
    io,
    mem::MaybeUninit,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{Budget, MemoryReservation};

/// The header that marks an ambiguous request. A client that sends it only causes its own request to be refused.
const MARK: &str = "x-longboat-ambiguous-length";
/// The header line. A test compares it with `MARK`.
const MARKED: &str = "x-longboat-ambiguous-length: 1\r\n";
/// The longest head that is read, in bytes, unless a server sets another limit. hyper refuses longer heads.
const MAX_HEAD_BYTES: usize = 512 * 1024;
/// The part of a head that does not count against the budget. Most heads are smaller.
const FREE_HEAD_BYTES: usize = 8 * 1024;
/// The most bytes of a body to read at once.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// Whether a request on a [`FramingStream`] connection declares its length in two ways. Its end is uncertain, so the service must
/// refuse it and close the connection.
pub(crate) fn is_ambiguous(headers: &HeaderMap) -> bool {
    headers.contains_key(MARK)
}

/// A connection that marks requests with ambiguous framing.
#[derive(Debug)]
pub struct FramingStream<S> {
    stream: S,
    switched: ProtocolSwitch,
    longest: usize,
    /// The memory of a head or line that is not complete, if it counts.
    reservation: Option<MemoryReservation>,
    state: State,
    /// The part of the current line that was read.
    line: Vec<u8>,
    /// Bytes that were read but not passed on yet.
    ready: Vec<u8>,
    passed: usize,
}

/// Tells a [`FramingStream`] connection that the following bytes are not requests.
#[derive(Debug, Clone, Default)]
pub struct ProtocolSwitch(Arc<AtomicBool>);

/// The position in the sequence of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a head.
    Head(Head),
    /// In a body with this many bytes left.
    Body(u64),
    /// At the line with the length of the next chunk.
    Chunk,
    /// In a chunk with this many bytes left, its line end included.
    InChunk(u64),
    /// In the lines after the last chunk.
    Trailers,
    /// Not in a sequence of requests: another protocol, or bytes that hyper will refuse.
    Other,
}

/// The framing headers in the lines of a head that were read so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Head {
    bytes: usize,
    length: Option<u64>,
    chunked: bool,
    broken: bool,
}

// === impl ProtocolSwitch ===

impl ProtocolSwitch {
    /// Must be called before a request is answered with 101: the connection then changes to another protocol.
    pub fn switch(&self) {
        self.0.store(true, Ordering::Release);
    }
}

// === impl FramingStream ===

impl<S> FramingStream<S> {
    /// Wraps `stream`, and reads the heads of its requests.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            switched: ProtocolSwitch::default(),
            longest: MAX_HEAD_BYTES,
            reservation: None,
            state: State::Head(Head::default()),
            line: Vec::new(),
            ready: Vec::new(),
            passed: 0,
        }
    }

    /// Sets the limit for servers that allow longer heads than hyper does by default. `bytes` is the size of hyper's buffer.
    #[must_use]
    pub fn with_head_limit(mut self, bytes: usize) -> Self {
        self.longest = bytes;
        self
    }

    /// Counts long heads against this budget until they are complete. If there is no room, the connection fails.
    #[must_use]
    pub fn with_head_budget(mut self, budget: &Arc<Budget>) -> Self {
        // There is always room for nothing.
        self.reservation = budget.hold(0);
        self
    }

    /// Reserves memory for what was read of a head, which is here or in hyper's buffer, and of a line. Releases that of a complete one.
    fn reserve(&mut self) -> io::Result<()> {
        let Some(reservation) = &mut self.reservation else { return Ok(()) };
        let head = if let State::Head(head) = self.state { head.bytes } else { 0 };
        let bytes = Some(head + self.line.len()).filter(|bytes| *bytes > FREE_HEAD_BYTES);
        let message = "the heads of all requests that arrive exceed their memory limit";
        let full = || io::Error::new(io::ErrorKind::QuotaExceeded, message);
        reservation.resize(bytes.unwrap_or_default()).ok_or_else(full)
    }

    /// Returns the switch for a service that may answer 101.
    pub fn switched(&self) -> ProtocolSwitch {
        self.switched.clone()
    }

    /// Processes the bytes that were read. Bytes of a head are held back until the end of each line.
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.state {
                State::Other => {
                    self.ready.append(&mut self.line);
                    self.ready.extend_from_slice(bytes);
                    return;
                }
                State::Body(left) | State::InChunk(left) => {
                    let length = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    let (now, rest) = bytes.split_at(length);
                    self.ready.extend_from_slice(now);
                    bytes = rest;
                    self.state = self.state.after(length as u64);
                }
                State::Head(_) | State::Chunk | State::Trailers => {
                    let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
                    let (now, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                    bytes = rest;
                    // Most lines come whole, and are not copied.
                    if end.is_some() && self.line.is_empty() {
                        self.end_of_line(now);
                        continue;
                    }
                    self.line.extend_from_slice(now);
                    if end.is_some() {
                        let line = std::mem::take(&mut self.line);
                        self.end_of_line(&line);
                    } else if self.line.len() > self.longest {
                        // hyper refuses it, so what follows need not be understood.
                        self.state = State::Other;
                    }
                }
            }
        }
    }

    fn end_of_line(&mut self, line: &[u8]) {
        let text = line.trim_ascii_end();
        let is_too_long = matches!(self.state, State::Head(head) if head.bytes + text.len() > self.longest);
        self.state = match self.state {
            _ if is_too_long => State::Other,
            // blank lines before a request are skipped
            State::Head(head) if text.is_empty() && head.bytes == 0 => State::Head(head),
            State::Head(head) if text.is_empty() => {
                // Before the empty line, so that it is the last line of the head.
                if head.chunked && head.length.is_some() {
                    self.ready.extend_from_slice(MARKED.as_bytes());
                }
                head.next()
            }
            State::Head(head) => head.with(text),
            State::Chunk => {
                let digits = text.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                match std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok())
                {
                    Some(0) => State::Trailers,
                    Some(length) => length.checked_add(2).map_or(State::Other, State::InChunk),
                    None => State::Other,
                }
            }
            State::Trailers if text.is_empty() => State::Head(Head::default()),
            other => other,
        };
        self.ready.extend_from_slice(line);
        if is_too_long {
            // The rest of this head is not read, so the request must be refused, too.
            self.ready.extend_from_slice(MARKED.as_bytes());
        }
    }

    /// Passes on the rest of a body without copying it.
    fn read_body(
        &mut self,
        left: u64,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>
    where
        S: AsyncRead + Unpin,
    {
        let most = out.remaining().min(usize::try_from(left).unwrap_or(usize::MAX)).min(READ_CHUNK_BYTES);
        let mut part = ReadBuf::new(out.initialize_unfilled_to(most));
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, &mut part))?;
        let read = part.filled().len();
        out.advance(read);
        self.state = self.state.after(read as u64);
        Poll::Ready(Ok(()))
    }
}

// === impl State ===

impl State {
    /// Returns the state after this many more bytes of a body or a chunk.
    fn after(self, bytes: u64) -> Self {
        match self {
            Self::Body(left) if left <= bytes => Self::Head(Head::default()),
            Self::InChunk(left) if left <= bytes => Self::Chunk,
            Self::Body(left) => Self::Body(left - bytes),
            Self::InChunk(left) => Self::InChunk(left - bytes),
            other => other,
        }
    }
}

// === impl Head ===

impl Head {
    /// Returns the state after another line of the head.
    fn with(mut self, line: &[u8]) -> State {
        // HTTP/2 starts with this line
        if self.bytes == 0 && line.starts_with(b"PRI * HTTP/2") {
            return State::Other;
        }
        let first = self.bytes == 0;
        self.bytes += line.len();
        let Some(colon) = line.iter().position(|byte| *byte == b':').filter(|_| !first) else {
            return State::Head(self);
        };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
            self.broken |= length.is_none();
            self.length = length.or(Some(0));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = true;
        }
        State::Head(self)
    }

    /// Returns the state after the head.
    fn next(self) -> State {
        match self.length {
            // hyper refuses the request and closes the connection, so nothing follows that needs to be read.
            _ if self.broken => State::Other,
            _ if self.chunked => State::Chunk,
            None | Some(0) => State::Head(Self::default()),
            Some(length) => State::Body(length),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FramingStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // A service switches before it answers, and only then does a client send something of the new protocol.
        if this.switched.0.load(Ordering::Acquire) && this.state != State::Other {
            this.state = State::Other;
            this.ready.append(&mut this.line);
        }
        loop {
            if this.passed < this.ready.len() {
                let rest = &this.ready[this.passed..];
                let count = rest.len().min(out.remaining());
                out.put_slice(&rest[..count]);
                this.passed += count;
                if this.passed == this.ready.len() {
                    this.ready.clear();
                    this.passed = 0;
                }
                return Poll::Ready(Ok(()));
            }
            if this.state == State::Other && this.line.is_empty() {
                return Pin::new(&mut this.stream).poll_read(context, out);
            }
            if let State::Body(left) | State::InChunk(left) = this.state {
                return this.read_body(left, context, out);
            }
            // Not zeroed: hyper asks several times for each head, and zeros would push other data out of the cache.
            let mut room = [MaybeUninit::uninit(); 8192];
            let mut read = ReadBuf::uninit(&mut room);
            match Pin::new(&mut this.stream).poll_read(context, &mut read) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
            if read.filled().is_empty() {
                // The connection has ended. An incomplete line goes to hyper, which reports the error.
                if this.line.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                this.ready.append(&mut this.line);
                this.state = State::Other;
                continue;
            }
            this.take(read.filled());
            this.reserve()?;
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FramingStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes that hyper gets if the input comes in pieces of `size`.
    fn passed(sent: &str, size: usize) -> String {
        let mut marked = FramingStream::new(());
        for piece in sent.as_bytes().chunks(size) {
            marked.take(piece);
        }
        marked.ready.append(&mut marked.line);
        String::from_utf8(marked.ready).unwrap()
    }

    #[test]
    fn a_head_that_is_too_long_to_be_looked_at_is_marked() {
        let mut framed = FramingStream::new(()).with_head_limit(30);
        let (head, rest) =
            ("GET / HTTP/1.1\r\nA: 123456789012345\r\n", "Content-Length: 1\r\nTransfer-Encoding: x\r\n\r\n");
        framed.take([head, rest].concat().as_bytes());
        assert_eq!(String::from_utf8(framed.ready).unwrap(), [head, MARKED, rest].concat());
    }

    #[tokio::test]
    async fn heads_that_do_not_end_share_one_memory() {
        use tokio::io::AsyncReadExt;

        let budget = Budget::new(50_000);
        let begun = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(40_000));
        let head = async |sent: &str| {
            let sent = sent.as_bytes().to_vec();
            let mut stream = FramingStream::new(io::Cursor::new(sent)).with_head_budget(&budget);
            stream.read_to_end(&mut Vec::new()).await.map(|_| stream)
        };
        let first = head(&begun).await.unwrap();
        assert!(budget.held() > 40_000);
        let full = head(&begun).await.unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::QuotaExceeded);
        head("GET / HTTP/1.1\r\n\r\n").await.unwrap();
        drop(first);
        let complete = head(&format!("{begun}\r\n\r\n")).await.unwrap();
        assert_eq!(budget.held(), 0, "the request goes on, and its head has arrived");
        drop(complete);
    }

    #[tokio::test]
    async fn bodies_are_followed_by_heads_again_however_they_are_read() {
        use tokio::io::AsyncReadExt as _;

        let body = "x".repeat(3 * READ_CHUNK_BYTES);
        let long = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let chunked = format!(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n";
        let sent = [&long, &chunked, &long, head, "\r\n"].concat();
        let mut read = String::new();
        FramingStream::new(sent.as_bytes()).read_to_string(&mut read).await.unwrap();
        assert!(
            read == [&long, &chunked, &long, head, MARKED, "\r\n"].concat(),
            "{} bytes of {}",
            read.len(),
            sent.len()
        );
    }

    #[test]
    fn requests_with_two_lengths_are_marked_wherever_they_stand() {
        assert_eq!(MARKED, format!("{MARK}: 1\r\n"));
        let marked = format!("{MARKED}\r\n");
        let fine = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let long = "POST / HTTP/1.1\r\nContent-Length: 36\r\n\r\nTransfer-Encoding: x\nContent-Length: 1";
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\n\r\n\r\nX\r\n0\r\nContent-Length: 3\r\n\r\n";
        for before in [
            String::new(),
            fine.repeat(2),
            long.to_owned(),
            chunked.to_owned(),
            [long, chunked, fine].concat(),
        ] {
            for head in [
                "Content-Length: 5\r\nTransfer-Encoding: chunked",
                "transfer-encoding : chunked\r\nCONTENT-LENGTH:5",
            ] {
                for size in [1, 2, 7, 1000] {
                    let head = format!("{before}POST / HTTP/1.1\r\n{head}\r\n");
                    assert_eq!(
                        passed(&format!("{head}\r\n0\r\n\r\n"), size),
                        format!("{head}{marked}0\r\n\r\n")
                    );
                }
            }
        }
        for text in [
            fine,
            long,
            chunked,
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nContent-Length: 1\nTransfer-Encoding: x\n\n",
        ] {
            assert_eq!(passed(text, 3), text);
        }
    }
}
