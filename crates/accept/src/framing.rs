//! Requests whose framing can be read in two ways.
//!
//! hyper reads a request with both `Transfer-Encoding` and `Content-Length` as chunked, and removes the length, so that
//! nobody behind it can see that two servers on the way might have read the request differently. This looks at the bytes
//! before hyper does.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The longest line of a head that is looked at. hyper refuses longer heads.
const LINE: usize = 512 << 10;

/// A connection on which a request with ambiguous framing is noticed.
#[derive(Debug)]
pub struct Framed<S> {
    stream: S,
    scan: Scan,
    ambiguous: Ambiguous,
}

/// Whether a request with ambiguous framing has come on a connection. From then on no request of it is to be served: where
/// one ends and the next begins is not certain.
#[derive(Debug, Clone, Default)]
pub struct Ambiguous(Arc<AtomicBool>);

#[derive(Debug, Default)]
struct Scan {
    state: State,
    line: Vec<u8>,
    /// Of the head that is being read.
    chunked: bool,
    length: Option<u64>,
    begun: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Lines of a head.
    #[default]
    Head,
    /// So many bytes of a body.
    Body(u64),
    /// The line with the size of a chunk.
    ChunkSize,
    /// So many bytes of a chunk, its line end included.
    Chunk(u64),
    /// Lines after the last chunk.
    Trailers,
    /// HTTP/2, or what hyper refuses anyway.
    Opaque,
}

// === impl Ambiguous ===

impl Ambiguous {
    /// Whether such a request has come.
    pub fn seen(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

// === impl Framed ===

impl<S> Framed<S> {
    /// Looks at everything that is read from `stream`.
    pub fn new(stream: S) -> Self {
        Self { stream, scan: Scan::default(), ambiguous: Ambiguous::default() }
    }

    /// What is known about this connection.
    pub fn ambiguous(&self) -> Ambiguous {
        self.ambiguous.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Framed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        if this.scan.read(&buffer.filled()[before..]) {
            this.ambiguous.0.store(true, Ordering::Release);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Framed<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }
}

// === impl Scan ===

impl Scan {
    /// Whether these bytes complete the head of a request with ambiguous framing.
    fn read(&mut self, mut bytes: &[u8]) -> bool {
        let mut ambiguous = false;
        while !bytes.is_empty() {
            match self.state {
                State::Opaque => return ambiguous,
                State::Body(left) => {
                    let (left, rest) = skip(left, bytes);
                    bytes = rest;
                    self.state = if left == 0 { State::Head } else { State::Body(left) };
                }
                State::Chunk(left) => {
                    let (left, rest) = skip(left, bytes);
                    bytes = rest;
                    self.state = if left == 0 { State::ChunkSize } else { State::Chunk(left) };
                }
                State::Head | State::ChunkSize | State::Trailers => {
                    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
                        if self.line.len() + bytes.len() > LINE {
                            self.state = State::Opaque;
                            return true;
                        }
                        self.line.extend_from_slice(bytes);
                        return ambiguous;
                    };
                    self.line.extend_from_slice(&bytes[..end]);
                    bytes = &bytes[end + 1..];
                    let mut line = std::mem::take(&mut self.line);
                    let text = line.strip_suffix(b"\r").unwrap_or(&line);
                    ambiguous |= self.line_read(text);
                    line.clear();
                    self.line = line;
                }
            }
        }
        ambiguous
    }

    fn line_read(&mut self, line: &[u8]) -> bool {
        match self.state {
            State::ChunkSize => {
                let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                let size =
                    std::str::from_utf8(digits).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
                self.state = match size {
                    Some(0) => State::Trailers,
                    // The bytes of a chunk end with a line end of two bytes.
                    Some(size) => State::Chunk(size.saturating_add(2)),
                    None => State::Opaque,
                };
                self.state == State::Opaque
            }
            State::Trailers => {
                if line.is_empty() {
                    self.state = State::Head;
                }
                false
            }
            _ => self.head_line(line),
        }
    }

    fn head_line(&mut self, line: &[u8]) -> bool {
        if line.is_empty() {
            // Empty lines before a request are skipped.
            if !self.begun {
                return false;
            }
            let ambiguous = self.chunked && self.length.is_some();
            self.state = match (self.chunked, self.length) {
                (true, _) => State::ChunkSize,
                (false, None | Some(0)) => State::Head,
                (false, Some(length)) => State::Body(length),
            };
            (self.chunked, self.length, self.begun) = (false, None, false);
            return ambiguous;
        }
        if !self.begun {
            self.begun = true;
            if line.starts_with(b"PRI * HTTP/2") {
                self.state = State::Opaque;
            }
            return false;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return false };
        let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            // What is no number, hyper refuses.
            self.length =
                Some(std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0));
        }
        false
    }
}

fn skip(left: u64, bytes: &[u8]) -> (u64, &[u8]) {
    let count = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    (left - count as u64, &bytes[count..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the bytes are cut, the answer is the same.
    fn ambiguous(text: &str) -> bool {
        let whole = Scan::default().read(text.as_bytes());
        for size in [1, 3, 7] {
            let mut scan = Scan::default();
            let mut seen = false;
            for bytes in text.as_bytes().chunks(size) {
                seen |= scan.read(bytes);
            }
            assert_eq!(seen, whole, "in pieces of {size}: {text:?}");
        }
        whole
    }

    #[test]
    fn a_length_beside_an_encoding_is_ambiguous_in_any_order_and_spelling() {
        for head in [
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTRANSFER-ENCODING:chunked\r\ncontent-length:0\r\n\r\n",
            "\r\nPOST / HTTP/1.1\nContent-Length: 4\nTransfer-Encoding: chunked\n\n",
        ] {
            assert!(ambiguous(head), "{head}");
        }
    }

    #[test]
    fn bodies_are_not_heads_and_the_request_after_one_is_looked_at() {
        let inner = "POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n";
        let length = inner.len();
        let counted = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{inner}");
        assert!(!ambiguous(&counted));
        assert!(ambiguous(&(counted + inner)));
        let chunked = format!(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{length:x};a=b\r\n{inner}\r\n0\r\nx: y\r\n\r\n"
        );
        assert!(!ambiguous(&chunked));
        assert!(ambiguous(&(chunked + inner)));
    }

    #[test]
    fn http2_is_left_alone_and_a_chunk_without_a_size_is_not_trusted() {
        assert!(!ambiguous("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
        assert!(ambiguous("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"));
    }
}
