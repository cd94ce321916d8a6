//! A msgpack reader and writer that build no tree.

/// The payload has another value at this position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at byte {at}")]
pub struct MsgpackError {
    /// The expected value.
    pub expected: &'static str,
    /// The position in bytes.
    pub at: usize,
}

/// Reads one value after another without allocating.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The kind of the next value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nil.
    Nil,
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// A floating point number.
    Float,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// An array.
    Array,
    /// A map.
    Map,
    /// An extension, or an invalid byte.
    Other,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Creates a reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the number of bytes that were not read yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns the kind of the next value, or `None` at the end.
    pub fn kind(&self) -> Option<Kind> {
        Some(match self.bytes.get(self.at)? {
            0xc0 => Kind::Nil,
            0xc2 | 0xc3 => Kind::Bool,
            0x00..=0x7f | 0xe0..=0xff | 0xcc..=0xd3 => Kind::Int,
            0xca | 0xcb => Kind::Float,
            0xa0..=0xbf | 0xd9..=0xdb => Kind::Text,
            0xc4..=0xc6 => Kind::Bytes,
            0x90..=0x9f | 0xdc | 0xdd => Kind::Array,
            0x80..=0x8f | 0xde | 0xdf => Kind::Map,
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => Kind::Other,
        })
    }

    /// Reads a nil if it comes next. Returns whether it did.
    pub fn nil(&mut self) -> bool {
        let is_nil = self.kind() == Some(Kind::Nil);
        self.at += usize::from(is_nil);
        is_nil
    }

    /// Reads an integer. A negative one is returned as its 64-bit two's complement.
    pub fn integer(&mut self) -> Result<u64, MsgpackError> {
        let error = self.error("a whole number");
        let first = self.byte().ok_or(error)?;
        let value = match first {
            0x00..=0x7f => Some(u64::from(first)),
            0xe0..=0xff => Some(i64::from(first.cast_signed()).cast_unsigned()),
            0xcc => self.big_endian(1),
            0xcd => self.big_endian(2),
            0xce => self.big_endian(4),
            0xcf | 0xd3 => self.big_endian(8),
            0xd0 => self.signed(1),
            0xd1 => self.signed(2),
            0xd2 => self.signed(4),
            _ => None,
        };
        value.ok_or(error)
    }

    /// Reads an integer or a floating point number.
    pub fn number(&mut self) -> Result<f64, MsgpackError> {
        let error = self.error("a number");
        match self.bytes.get(self.at) {
            Some(0xca) => {
                self.at += 1;
                let bits = self.big_endian(4).and_then(|bits| u32::try_from(bits).ok()).ok_or(error)?;
                Ok(f64::from(f32::from_bits(bits)))
            }
            Some(0xcb) => {
                self.at += 1;
                Ok(f64::from_bits(self.big_endian(8).ok_or(error)?))
            }
            #[expect(clippy::cast_precision_loss, reason = "a time")]
            _ => self.integer().map(|value| value as f64).map_err(|_| error),
        }
    }

    /// Reads a UTF-8 text.
    pub fn text(&mut self) -> Result<&'a str, MsgpackError> {
        let error = self.error("text");
        let bytes = self.head(Kind::Text).and_then(|length| self.take(length)).ok_or(error)?;
        std::str::from_utf8(bytes).map_err(|_| error)
    }

    /// Reads a byte string.
    pub fn bytes(&mut self) -> Result<&'a [u8], MsgpackError> {
        let error = self.error("bytes");
        self.head(Kind::Bytes).and_then(|length| self.take(length)).ok_or(error)
    }

    /// Reads the start of an array, and returns the number of its values. The number is at most the number of remaining
    /// bytes.
    pub fn array(&mut self) -> Result<usize, MsgpackError> {
        let error = self.error("an array");
        self.head(Kind::Array).and_then(|length| self.count(length)).ok_or(error)
    }

    /// Reads the start of a map, and returns the number of its pairs. The number is at most the number of remaining bytes.
    pub fn map(&mut self) -> Result<usize, MsgpackError> {
        let error = self.error("a map");
        self.head(Kind::Map).and_then(|length| self.count(length)).ok_or(error)
    }

    /// Skips one value of any depth, and returns its bytes.
    pub fn skip(&mut self) -> Result<&'a [u8], MsgpackError> {
        let start = self.at;
        let error = self.error("a value");
        // A loop and no recursion: the bytes come from outside, and may nest as deep as they are long.
        let mut pending = 1_usize;
        while pending > 0 {
            pending -= 1;
            match self.kind().ok_or(error)? {
                Kind::Array => pending = pending.saturating_add(self.array()?),
                Kind::Map => pending = pending.saturating_add(self.map()?.saturating_mul(2)),
                kind @ (Kind::Text | Kind::Bytes) => {
                    self.head(kind).and_then(|length| self.take(length)).ok_or(error)?;
                }
                Kind::Nil | Kind::Bool => self.at += 1,
                Kind::Int => drop(self.integer()?),
                Kind::Float => drop(self.number()?),
                Kind::Other => {
                    let length = match self.byte().ok_or(error)? {
                        first @ 0xd4..=0xd8 => 1 << (first - 0xd4),
                        first @ 0xc7..=0xc9 => self.big_endian(1 << (first - 0xc7)).ok_or(error)?,
                        _ => return Err(error),
                    };
                    // One more byte has the type of the extension.
                    self.take(length.saturating_add(1)).ok_or(error)?;
                }
            }
        }
        Ok(&self.bytes[start..self.at])
    }

    /// Reads the length of a value that has one, if it is of this kind.
    fn head(&mut self, kind: Kind) -> Option<u64> {
        if self.kind()? != kind {
            return None;
        }
        match self.byte()? {
            first @ 0x80..=0x9f => Some(u64::from(first & 0xf)),
            first @ 0xa0..=0xbf => Some(u64::from(first & 0x1f)),
            first @ 0xc4..=0xc6 => self.big_endian(1 << (first - 0xc4)),
            first @ 0xd9..=0xdb => self.big_endian(1 << (first - 0xd9)),
            0xdc | 0xde => self.big_endian(2),
            _ => self.big_endian(4),
        }
    }

    pub(crate) fn error(&self, expected: &'static str) -> MsgpackError {
        MsgpackError { expected, at: self.at }
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let bytes = self.bytes[self.at..].get(..usize::try_from(length).ok()?)?;
        self.at += bytes.len();
        Some(bytes)
    }

    fn big_endian(&mut self, width: usize) -> Option<u64> {
        let bytes = self.take(width as u64)?;
        Some(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    fn signed(&mut self, width: usize) -> Option<u64> {
        let shift = 64 - 8 * width;
        let value = self.big_endian(width)?;
        Some(((value << shift).cast_signed() >> shift).cast_unsigned())
    }

    fn count(&self, length: u64) -> Option<usize> {
        usize::try_from(length).ok().filter(|length| *length <= self.remaining())
    }
}

/// Writes one value after another.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    /// The bytes that were written.
    pub bytes: Vec<u8>,
}

// === impl Writer ===

impl Writer {
    /// Writes nil.
    pub fn nil(&mut self) {
        self.bytes.push(0xc0);
    }

    /// Writes an integer in its shortest form.
    pub fn integer(&mut self, value: u64) {
        if let Ok(small) = u8::try_from(value) {
            if small > 0x7f {
                self.bytes.push(0xcc);
            }
            self.bytes.push(small);
        } else if let Ok(value) = u16::try_from(value) {
            self.bytes.push(0xcd);
            self.bytes.extend(value.to_be_bytes());
        } else if let Ok(value) = u32::try_from(value) {
            self.bytes.push(0xce);
            self.bytes.extend(value.to_be_bytes());
        } else {
            self.bytes.push(0xcf);
            self.bytes.extend(value.to_be_bytes());
        }
    }

    /// Writes a floating point number.
    pub fn float(&mut self, value: f64) {
        self.bytes.push(0xcb);
        self.bytes.extend(value.to_be_bytes());
    }

    /// Writes a text of at most four GiB.
    pub fn text(&mut self, text: &str) {
        match text.len() {
            length @ 0..32 => self.head(0xa0, length),
            length @ 32..256 => {
                self.bytes.push(0xd9);
                self.head(0, length);
            }
            length => {
                self.bytes.push(0xdb);
                self.long(length);
            }
        }
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Writes the start of an array with this many values.
    pub fn array(&mut self, length: usize) {
        if length < 16 {
            self.head(0x90, length);
        } else {
            self.bytes.push(0xdd);
            self.long(length);
        }
    }

    /// Writes the start of a map with this many pairs.
    pub fn map(&mut self, length: usize) {
        if length < 16 {
            self.head(0x80, length);
        } else {
            self.bytes.push(0xdf);
            self.long(length);
        }
    }

    fn head(&mut self, first: u8, length: usize) {
        self.bytes.push(first | u8::try_from(length).unwrap_or_default());
    }

    fn long(&mut self, length: usize) {
        self.bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }
}
