//! The part of protobuf that gRPC requests need: frames, and the fields of a message one after the other. Nothing is copied,
//! and a nested message is read only if the caller asks for it.

/// Why a message cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    #[error("invalid or unsupported gRPC payload: it is shorter than its header says")]
    Short,
    #[error("invalid or unsupported gRPC payload: it is compressed")]
    Compressed,
    #[error("invalid protobuf message: it ends in the middle of a field")]
    Cut,
    #[error("invalid protobuf message: field number or wire type is not known")]
    Tag,
    #[error("invalid protobuf message: text is not UTF-8")]
    Text,
}

/// The length of the header before each message. The header says whether the message is compressed, and how long it is.
pub(crate) const HEADER: usize = 5;

/// Returns the length of the message after this header.
pub(crate) fn length(header: [u8; HEADER]) -> Result<usize, ProtobufError> {
    let [compressed, a, b, c, d] = header;
    if compressed == 1 {
        return Err(ProtobufError::Compressed);
    }
    usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| ProtobufError::Short)
}

/// Returns the first message of a body.
pub(crate) fn message(body: &[u8]) -> Result<&[u8], ProtobufError> {
    let (header, rest) = body.split_first_chunk::<HEADER>().ok_or(ProtobufError::Short)?;
    rest.get(..length(*header)?).ok_or(ProtobufError::Short)
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number or a boolean.
    Number(u64),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// A number of fixed length. No caller needs one.
    Fixed,
}

impl<'a> Value<'a> {
    pub(crate) fn number(self) -> u64 {
        if let Self::Number(number) = self { number } else { 0 }
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        if let Self::Bytes(bytes) = self { bytes } else { &[] }
    }

    pub(crate) fn text(self) -> Result<&'a str, ProtobufError> {
        std::str::from_utf8(self.bytes()).map_err(|_| ProtobufError::Text)
    }
}

/// The fields of a message, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(ProtobufError::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), ProtobufError> {
        let tag = varint(&mut self.0)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number));
        let number = number.ok_or(ProtobufError::Tag)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut self.0)?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| ProtobufError::Cut)?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(ProtobufError::Tag),
        };
        Ok((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            // Reading cannot go on after an error.
            self.0 = &[];
        }
        Some(field)
    }
}

/// Appends the numbers of a repeated field, packed or single, as little-endian bytes of 32 bits each.
pub(crate) fn append_numbers(value: Value<'_>, to: &mut Vec<u8>) -> Result<(), ProtobufError> {
    match value {
        Value::Number(number) => append_number(number, to),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                append_number(varint(&mut packed)?, to);
            }
        }
        Value::Fixed => return Err(ProtobufError::Tag),
    }
    Ok(())
}

fn append_number(number: u64, to: &mut Vec<u8>) {
    // Like other protobuf readers, this keeps the lowest 32 bits.
    let low = u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default();
    to.extend_from_slice(&low.to_le_bytes());
}

fn varint(bytes: &mut &[u8]) -> Result<u64, ProtobufError> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(ProtobufError::Cut)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(ProtobufError::Cut)
}
