//! SPDY/3.1 framing, as far as port-forwarding and exec use it. Like kubectl, this does not enforce flow-control windows.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::dictionary::dictionary;

/// The largest frame in bytes: kubectl sends 32 KiB at a time.
const MAX_FRAME_BYTES: usize = 1 << 20;
/// The most bytes of headers after decompression.
const MAX_HEADERS_BYTES: usize = 64 * 1024;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS_FRAME: u16 = 8;
const FIN: u8 = 1;

/// A frame from the peer.
#[derive(Debug)]
pub(super) enum Frame {
    Open {
        stream: u32,
        headers: Vec<(String, String)>,
    },
    Data {
        stream: u32,
        data: Bytes,
        last: bool,
    },
    Reset {
        stream: u32,
    },
    Ping(u32),
    GoAway,
    /// Settings, window updates, and unknown frames.
    Other,
}

/// A frame to the peer.
#[derive(Debug)]
pub(super) enum OutboundFrame {
    Accept { stream: u32 },
    Data { stream: u32, data: Bytes, last: bool },
    Reset { stream: u32 },
    Pong(u32),
}

/// Reads frames.
pub(super) struct Reader<R> {
    input: BufReader<R>,
    headers: Decompress,
}

/// Writes frames.
pub(super) struct Writer<W> {
    output: W,
    headers: Compress,
}

// === impl Reader ===

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(64 * 1024, input), headers: Decompress::new(true) }
    }

    /// Reads the next frame. Returns `None` at the end of the connection.
    pub(super) async fn next(&mut self) -> io::Result<Option<Frame>> {
        let mut head = [0; 8];
        match self.input.read_exact(&mut head).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let first = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let flags = head[4];
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MAX_FRAME_BYTES {
            return Err(invalid("a frame is too large"));
        }
        let mut payload = vec![0; length];
        self.input.read_exact(&mut payload).await?;
        if first & 0x8000_0000 == 0 {
            return Ok(Some(Frame::Data {
                stream: first,
                data: Bytes::from(payload),
                last: flags & FIN != 0,
            }));
        }
        let kind = u16::from_be_bytes([head[2], head[3]]);
        let number = |at: usize| -> io::Result<u32> {
            let bytes = payload.get(at..at + 4).ok_or_else(|| invalid("a frame is too short"))?;
            Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
        };
        Ok(Some(match kind {
            SYN_STREAM => {
                let stream = number(0)? & 0x7fff_ffff;
                let block = payload.get(10..).ok_or_else(|| invalid("a frame is too short"))?;
                let headers = self.headers(block)?;
                Frame::Open { stream, headers }
            }
            SYN_REPLY | HEADERS_FRAME => {
                // the headers themselves do not matter, but they are part of the compression context of later headers
                let block = payload.get(4..).ok_or_else(|| invalid("a frame is too short"))?;
                self.headers(block)?;
                Frame::Other
            }
            RST_STREAM => Frame::Reset { stream: number(0)? & 0x7fff_ffff },
            PING => Frame::Ping(number(0)?),
            GOAWAY => Frame::GoAway,
            _ => Frame::Other,
        }))
    }

    fn headers(&mut self, mut block: &[u8]) -> io::Result<Vec<(String, String)>> {
        let mut plain = Vec::with_capacity(1024);
        loop {
            if plain.len() >= MAX_HEADERS_BYTES {
                return Err(invalid("headers are too large"));
            }
            plain.reserve(1024);
            let before = (self.headers.total_in(), self.headers.total_out());
            let result = self.headers.decompress_vec(block, &mut plain, FlushDecompress::Sync);
            let used = usize::try_from(self.headers.total_in() - before.0).unwrap_or(0);
            block = block.get(used..).unwrap_or_default();
            match result {
                Ok(Status::StreamEnd) => break,
                Ok(_) if block.is_empty() && plain.len() < plain.capacity() => break,
                Ok(_) => {
                    if used == 0 && self.headers.total_out() == before.1 {
                        break;
                    }
                }
                // zlib asks for the dictionary in the first block of a connection.
                Err(error) if error.needs_dictionary().is_some() => {
                    self.headers
                        .set_dictionary(&dictionary())
                        .map_err(|_| invalid("headers use another dictionary"))?;
                }
                Err(_) => return Err(invalid("headers cannot be decompressed")),
            }
        }
        parse(&plain)
    }
}

// === impl Writer ===

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(output: W) -> Self {
        let mut headers = Compress::new(Compression::default(), true);
        // a fresh compressor accepts any dictionary
        let _ = headers.set_dictionary(&dictionary());
        Self { output, headers }
    }

    /// Writes all frames that come, then closes the output.
    pub(super) async fn write_all(mut self, mut frames: mpsc::Receiver<OutboundFrame>) -> io::Result<()> {
        while let Some(frame) = frames.recv().await {
            self.write(frame).await?;
        }
        self.output.shutdown().await
    }

    async fn write(&mut self, frame: OutboundFrame) -> io::Result<()> {
        let mut out = BytesMut::new();
        match frame {
            OutboundFrame::Accept { stream } => {
                let block = self.no_headers()?;
                control(&mut out, SYN_REPLY, 0, 4 + block.len());
                out.put_u32(stream);
                out.put_slice(&block);
            }
            OutboundFrame::Data { stream, data, last } => {
                out.put_u32(stream & 0x7fff_ffff);
                put_length(&mut out, if last { FIN } else { 0 }, data.len());
                out.put_slice(&data);
            }
            OutboundFrame::Reset { stream } => {
                const CANCEL: u32 = 5;
                control(&mut out, RST_STREAM, 0, 8);
                out.put_u32(stream);
                out.put_u32(CANCEL);
            }
            OutboundFrame::Pong(id) => {
                control(&mut out, PING, 0, 4);
                out.put_u32(id);
            }
        }
        self.output.write_all(&out).await?;
        self.output.flush().await
    }

    /// An empty header block, compressed in the context of the previous blocks.
    fn no_headers(&mut self) -> io::Result<Vec<u8>> {
        let mut block = Vec::with_capacity(256);
        self.headers
            .compress_vec(&0_u32.to_be_bytes(), &mut block, FlushCompress::Sync)
            .map_err(|_| invalid("headers cannot be compressed"))?;
        Ok(block)
    }
}

fn control(out: &mut BytesMut, kind: u16, flags: u8, length: usize) {
    out.put_u16(0x8003);
    out.put_u16(kind);
    put_length(out, flags, length);
}

/// Writes the flags and the 24-bit length.
fn put_length(out: &mut BytesMut, flags: u8, length: usize) {
    let length = u32::try_from(length).unwrap_or_default().to_be_bytes();
    out.put_slice(&[flags, length[1], length[2], length[3]]);
}

fn parse(plain: &[u8]) -> io::Result<Vec<(String, String)>> {
    let mut rest = plain;
    let count = take_number(&mut rest)?;
    let mut headers = Vec::new();
    // The client chooses the number. kubectl sends three.
    for _ in 0..count.min(256) {
        let name = take_text(&mut rest)?;
        let value = take_text(&mut rest)?;
        headers.push((name.to_ascii_lowercase(), value));
    }
    Ok(headers)
}

fn take_number(rest: &mut &[u8]) -> io::Result<u32> {
    let (head, tail) = rest.split_first_chunk::<4>().ok_or_else(|| invalid("headers are cut off"))?;
    *rest = tail;
    Ok(u32::from_be_bytes(*head))
}

fn take_text(rest: &mut &[u8]) -> io::Result<String> {
    let length = usize::try_from(take_number(rest)?).unwrap_or(usize::MAX);
    if length > rest.len() {
        return Err(invalid("headers are cut off"));
    }
    let (head, tail) = rest.split_at(length);
    *rest = tail;
    String::from_utf8(head.to_vec()).map_err(|_| invalid("headers are not text"))
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_frame(compress: &mut Compress, stream: u32, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = Vec::new();
        plain.put_u32(u32::try_from(headers.len()).unwrap());
        for (name, value) in headers {
            for text in [name, value] {
                plain.put_u32(u32::try_from(text.len()).unwrap());
                plain.put_slice(text.as_bytes());
            }
        }
        let mut block = Vec::with_capacity(1024);
        compress.compress_vec(&plain, &mut block, FlushCompress::Sync).unwrap();
        let mut out = BytesMut::new();
        control(&mut out, SYN_STREAM, 0, 10 + block.len());
        out.put_u32(stream);
        out.put_u32(0);
        out.put_u16(0);
        out.put_slice(&block);
        out.to_vec()
    }

    #[tokio::test]
    async fn headers_of_several_streams_are_read_in_one_compression_context() {
        let mut compress = Compress::new(Compression::default(), true);
        compress.set_dictionary(&dictionary()).unwrap();
        let mut wire =
            open_frame(&mut compress, 1, &[("streamtype", "error"), ("port", "80"), ("requestid", "0")]);
        wire.extend(open_frame(
            &mut compress,
            3,
            &[("streamtype", "data"), ("port", "80"), ("requestid", "0")],
        ));
        wire.extend([0, 0, 0, 3, 1, 0, 0, 2, b'h', b'i']);
        let mut reader = Reader::new(wire.as_slice());
        for (id, kind) in [(1, "error"), (3, "data")] {
            let Some(Frame::Open { stream, headers }) = reader.next().await.unwrap() else {
                panic!("no stream")
            };
            assert_eq!(stream, id);
            assert_eq!(headers[0], ("streamtype".to_owned(), kind.to_owned()));
        }
        let Some(Frame::Data { data, last, .. }) = reader.next().await.unwrap() else { panic!("no data") };
        assert_eq!((&data[..], last), (&b"hi"[..], true));
        assert!(reader.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn garbage_is_an_error_and_not_a_panic() {
        for wire in [
            &[0x80, 3, 0, 1, 0, 0, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12][..],
            &[0, 0, 0, 1, 0, 255, 255, 255],
        ] {
            let mut reader = Reader::new(wire);
            assert!(reader.next().await.is_err());
        }
    }
}
