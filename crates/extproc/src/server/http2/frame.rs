//! Frames (RFC 9113, sections 4 and 6): parsing and writing of their headers.

/// The first bytes of every client.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const HEAD: usize = 9;
/// The largest frame that the server accepts, which is the default of every peer.
pub(super) const MAX_FRAME: usize = 16 << 10;
/// The length of a priority, in a frame of its own or in the headers of a stream.
pub(super) const PRIORITY_LENGTH: usize = 5;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const WITH_PRIORITY: u8 = 0x20;

/// Error codes (section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    None = 0,
    Protocol = 1,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    RefusedStream = 7,
    Compression = 9,
    EnhanceYourCalm = 11,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    pub(super) fn read(bytes: [u8; HEAD]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Writes a frame's header; the caller writes the payload.
pub(super) fn head(length: usize, kind: u8, flags: u8, stream: u32, into: &mut Vec<u8>) {
    let length = u32::try_from(length).unwrap_or_default().to_be_bytes();
    into.extend_from_slice(&length[1..]);
    into.push(kind);
    into.push(flags);
    into.extend_from_slice(&stream.to_be_bytes());
}

pub(super) fn settings(values: &[(u16, u32)], into: &mut Vec<u8>) {
    head(values.len() * 6, SETTINGS, 0, 0, into);
    for (name, value) in values {
        into.extend_from_slice(&name.to_be_bytes());
        into.extend_from_slice(&value.to_be_bytes());
    }
}

pub(super) fn window_update(stream: u32, bytes: u32, into: &mut Vec<u8>) {
    head(4, WINDOW_UPDATE, 0, stream, into);
    into.extend_from_slice(&bytes.to_be_bytes());
}

pub(super) fn ping(flags: u8, payload: [u8; 8], into: &mut Vec<u8>) {
    head(payload.len(), PING, flags, 0, into);
    into.extend_from_slice(&payload);
}

pub(super) fn reset(stream: u32, code: Code, into: &mut Vec<u8>) {
    head(4, RST_STREAM, 0, stream, into);
    into.extend_from_slice(&(code as u32).to_be_bytes());
}

pub(super) fn goaway(last: u32, code: Code, into: &mut Vec<u8>) {
    head(8, GOAWAY, 0, 0, into);
    into.extend_from_slice(&last.to_be_bytes());
    into.extend_from_slice(&(code as u32).to_be_bytes());
}
