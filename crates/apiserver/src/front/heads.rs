//! The heads of HTTP/1 requests as they come over the wire.
//!
//! hyper drops `Content-Length` where a request has `Transfer-Encoding`, too, and says nothing. Servers that decide otherwise
//! see another request there, which is how requests are smuggled past proxies. So the heads are read along, and such a
//! request is marked with a header line of its own that the service refuses.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The header that marks a request; a client that sends it refuses itself.
pub(super) const REFUSED: &str = "x-longboat-ambiguous-length";
/// Longest head that is looked at, in bytes. hyper refuses longer ones.
const LONGEST: usize = 512 * 1024;

/// A stream whose requests are marked.
#[derive(Debug)]
pub(super) struct Marked<S> {
    stream: S,
    state: State,
    /// The line that is being read, and what of it was read.
    line: Vec<u8>,
    /// What was read and not yet passed on.
    ready: Vec<u8>,
    passed: usize,
}

/// Where in the sequence of requests the reading is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a head.
    Head(Head),
    /// In a body of which this many bytes are to come.
    Body(u64),
    /// At the line that says how long the next chunk is.
    Chunk,
    /// In a chunk of which this many bytes are to come, its line end included.
    InChunk(u64),
    /// In the lines after the last chunk.
    Trailers,
    /// In what is no sequence of requests: another protocol, or nothing that hyper would accept.
    Other,
}

/// What a head said so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Head {
    bytes: usize,
    length: Option<u64>,
    chunked: bool,
    upgrade: bool,
    broken: bool,
}

// === impl Marked ===

impl<S> Marked<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, state: State::Head(Head::default()), line: Vec::new(), ready: Vec::new(), passed: 0 }
    }

    /// Takes over what was read; heads are kept back until the end of each line.
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Other => {
                    self.ready.append(&mut self.line);
                    self.ready.extend_from_slice(bytes);
                    return;
                }
                State::Body(left) | State::InChunk(left) => {
                    let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    let (now, rest) = bytes.split_at(taken);
                    self.ready.extend_from_slice(now);
                    bytes = rest;
                    *left -= taken as u64;
                    if *left == 0 {
                        self.state = match self.state {
                            State::Body(_) => State::Head(Head::default()),
                            _ => State::Chunk,
                        };
                    }
                }
                State::Head(_) | State::Chunk | State::Trailers => {
                    let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
                    let (now, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                    self.line.extend_from_slice(now);
                    bytes = rest;
                    if end.is_some() {
                        self.end_of_line();
                    } else if self.line.len() > LONGEST {
                        self.state = State::Other;
                    }
                }
            }
        }
    }

    fn end_of_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = line.trim_ascii_end();
        self.state = match self.state {
            // lines before a request are skipped
            State::Head(head) if text.is_empty() && head.bytes == 0 => State::Head(head),
            State::Head(head) if text.is_empty() => {
                if head.chunked && head.length.is_some() {
                    self.ready.extend_from_slice(format!("{REFUSED}: 1\r\n").as_bytes());
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
        self.ready.extend_from_slice(&line);
    }
}

// === impl Head ===

impl Head {
    /// The head with another line.
    fn with(mut self, line: &[u8]) -> State {
        // HTTP/2 begins like this
        if self.bytes == 0 && line.starts_with(b"PRI * HTTP/2") {
            return State::Other;
        }
        let first = self.bytes == 0;
        self.bytes += line.len();
        if self.bytes > LONGEST {
            return State::Other;
        }
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
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.upgrade = true;
        }
        State::Head(self)
    }

    /// What follows the head.
    fn next(self) -> State {
        match self.length {
            _ if self.broken || self.upgrade => State::Other,
            _ if self.chunked => State::Chunk,
            None | Some(0) => State::Head(Self::default()),
            Some(length) => State::Body(length),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Marked<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
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
            let mut room = [0; 8192];
            let mut read = ReadBuf::new(&mut room);
            match Pin::new(&mut this.stream).poll_read(context, &mut read) {
                Poll::Ready(Ok(())) => {}
                other => return other,
            }
            if read.filled().is_empty() {
                // The end: what is left of a line goes to hyper, which says what is wrong with it.
                if this.line.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                this.ready.append(&mut this.line);
                this.state = State::Other;
                continue;
            }
            let filled = read.filled().to_vec();
            this.take(&filled);
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Marked<S> {
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

    /// What hyper gets, if the bytes come in pieces of `size`.
    fn passed(sent: &str, size: usize) -> String {
        let mut marked = Marked::new(());
        for piece in sent.as_bytes().chunks(size) {
            marked.take(piece);
        }
        marked.ready.append(&mut marked.line);
        String::from_utf8(marked.ready).unwrap()
    }

    #[test]
    fn requests_with_two_lengths_are_marked_wherever_they_stand() {
        let marked = format!("{REFUSED}: 1\r\n\r\n");
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
