//! GGUF files: a header with metadata and a table of tensors, then the tensors.

use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use candle_core::quantized::GgmlDType;

use super::{
    bytes::{Cursor, HeaderError},
    raw::{TensorInfo, Tensors},
};
use crate::LoadError;

/// The longest header, in bytes. With a vocabulary of 256 thousand tokens, a header has 12 MiB.
const MAX_HEADER_BYTES: usize = 128 << 20;
/// The deepest nesting of arrays in the metadata.
const MAX_DEPTH: usize = 4;

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Any integer.
    Integer(i128),
    Number(f64),
    Flag(bool),
    Text(String),
    List(Vec<Self>),
}

/// An open GGUF file.
pub(crate) struct Gguf {
    path: PathBuf,
    metadata: BTreeMap<String, Value>,
    pub(super) tensors: Tensors,
}

// === impl Value ===

impl Value {
    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn size(&self) -> Option<usize> {
        if let Self::Integer(value) = self { usize::try_from(*value).ok() } else { None }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) => Some(*value),
            #[expect(clippy::cast_precision_loss, reason = "numbers of a model's description are small")]
            Self::Integer(value) => Some(*value as f64),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Self]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }

    fn read(cursor: &mut Cursor<'_>, kind: u32, depth: usize) -> Result<Self, HeaderError> {
        Ok(match kind {
            0 => Self::Integer(cursor.number(u8::from_le_bytes)?.into()),
            1 => Self::Integer(cursor.number(i8::from_le_bytes)?.into()),
            2 => Self::Integer(cursor.number(u16::from_le_bytes)?.into()),
            3 => Self::Integer(cursor.number(i16::from_le_bytes)?.into()),
            4 => Self::Integer(cursor.u32()?.into()),
            5 => Self::Integer(cursor.number(i32::from_le_bytes)?.into()),
            6 => Self::Number(cursor.number(f32::from_le_bytes)?.into()),
            7 => Self::Flag(cursor.number(u8::from_le_bytes)? != 0),
            8 => Self::Text(cursor.text()?),
            9 if depth > 0 => {
                let kind = cursor.u32()?;
                let count = cursor.elements()?;
                let values = (0..count).map(|_| Self::read(cursor, kind, depth - 1));
                Self::List(values.collect::<Result<_, _>>()?)
            }
            10 => Self::Integer(cursor.u64()?.into()),
            11 => Self::Integer(cursor.number(i64::from_le_bytes)?.into()),
            12 => Self::Number(cursor.number(f64::from_le_bytes)?),
            kind => return Err(HeaderError::Invalid(format!("metadata of the unknown type {kind}"))),
        })
    }
}

// === impl Gguf ===

impl Gguf {
    /// Reads the header.
    pub(crate) fn open(path: &Path) -> Result<Self, LoadError> {
        let failed = |source| LoadError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        // The length of a header is known only at its end, so it is read again, eight times as long each time: the largest known
        // ones take three reads.
        let mut length = usize::try_from(size).unwrap_or(usize::MAX).min(1 << 20);
        loop {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, 0).map_err(failed)?;
            match Header::read(&bytes, size) {
                Ok(Header { metadata, tensors }) => {
                    let path = path.to_owned();
                    let tensors = Tensors { files: vec![(path.clone(), file)], places: tensors };
                    return Ok(Self { path, metadata, tensors });
                }
                // The header is longer than the part that was read.
                Err(HeaderError::Truncated) if (length as u64) < size && length < MAX_HEADER_BYTES => {
                    length = length
                        .saturating_mul(8)
                        .min(MAX_HEADER_BYTES)
                        .min(usize::try_from(size).unwrap_or(MAX_HEADER_BYTES));
                }
                Err(broken) => {
                    let reason = match broken {
                        HeaderError::Truncated => {
                            "the file ends within its header, or the header is too long".to_owned()
                        }
                        HeaderError::Invalid(reason) => reason,
                    };
                    return Err(LoadError::malformed(path, reason));
                }
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a value of the metadata.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }
}

/// Parses the header of a file without tensors, for the fuzz target.
pub(crate) fn probe(bytes: &[u8]) {
    let _ = Header::read(bytes, bytes.len() as u64);
}

/// The metadata of a header, for the fuzz target.
pub(crate) fn metadata(bytes: &[u8]) -> Option<BTreeMap<String, Value>> {
    Header::read(bytes, bytes.len() as u64).ok().map(|header| header.metadata)
}

struct Header {
    metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, TensorInfo>,
}

impl Header {
    /// Reads the header of a file of `size` bytes. Each tensor must be within the file.
    fn read(bytes: &[u8], size: u64) -> Result<Self, HeaderError> {
        let mut cursor = Cursor::new(bytes);
        if cursor.take(4)? != b"GGUF" {
            return Err(HeaderError::Invalid("not a GGUF file: it does not begin with `GGUF`".into()));
        }
        let version = cursor.u32()?;
        // Version 1 has counts of 32 bits.
        if !(2..=3).contains(&version) {
            return Err(HeaderError::Invalid(format!("GGUF version {version}; expected 2 or 3")));
        }
        // The smallest tensor needs 24 bytes in the table, and the smallest metadata value 13.
        let (tensor_count, value_count) = (cursor.count(24)?, cursor.count(13)?);
        let mut metadata = BTreeMap::new();
        for _ in 0..value_count {
            let key = cursor.text()?;
            let kind = cursor.u32()?;
            metadata.insert(key, Value::read(&mut cursor, kind, MAX_DEPTH)?);
        }
        let mut tensors = BTreeMap::new();
        for _ in 0..tensor_count {
            let (name, place) = TensorInfo::read(&mut cursor)?;
            tensors.insert(name, place);
        }
        // The default is GGUF's.
        let alignment = metadata.get("general.alignment").and_then(Value::size).unwrap_or(32);
        if !alignment.is_power_of_two() || alignment > 1 << 20 {
            return Err(HeaderError::Invalid(format!(
                "general.alignment is {alignment}: expected a power of two up to 1048576"
            )));
        }
        let start = cursor.position().next_multiple_of(alignment) as u64;
        for (name, place) in &mut tensors {
            let end = place.offset.checked_add(start).and_then(|offset| {
                place.offset = offset;
                offset.checked_add(place.length as u64)
            });
            if end.is_none_or(|end| end > size) {
                return Err(HeaderError::Invalid(format!(
                    "tensor `{name}` is outside of the file, which may be cut off"
                )));
            }
        }
        Ok(Self { metadata, tensors })
    }
}

impl TensorInfo {
    fn read(cursor: &mut Cursor<'_>) -> Result<(String, Self), HeaderError> {
        let name = cursor.text()?;
        let invalid = |reason: String| HeaderError::Invalid(format!("tensor `{name}`: {reason}"));
        let dimensions = cursor.u32()?;
        if !(1..=4).contains(&dimensions) {
            return Err(invalid(format!("{dimensions} dimensions; expected 1 to 4")));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            let length = cursor.u64()?;
            shape.push(usize::try_from(length).map_err(|_| invalid(format!("a dimension of {length}")))?);
        }
        // The file lists the innermost dimension first.
        shape.reverse();
        let format = cursor.u32()?;
        let format = format_of(format).ok_or_else(|| invalid(format!("the unknown format {format}")))?;
        let elements = shape.iter().try_fold(1_usize, |product, length| product.checked_mul(*length));
        let length = elements
            .filter(|elements| elements.is_multiple_of(format.block_size()))
            .and_then(|elements| (elements / format.block_size()).checked_mul(format.type_size()))
            .ok_or_else(|| invalid("its size does not match its format".into()))?;
        Ok((name, Self { file: 0, format, shape, offset: cursor.u64()?, length }))
    }
}

/// Returns the format of a number in the file. Returns `None` for formats that the engine neither multiplies nor converts.
fn format_of(number: u32) -> Option<GgmlDType> {
    Some(match number {
        0 => GgmlDType::F32,
        1 => GgmlDType::F16,
        2 => GgmlDType::Q4_0,
        3 => GgmlDType::Q4_1,
        6 => GgmlDType::Q5_0,
        7 => GgmlDType::Q5_1,
        8 => GgmlDType::Q8_0,
        10 => GgmlDType::Q2K,
        11 => GgmlDType::Q3K,
        12 => GgmlDType::Q4K,
        13 => GgmlDType::Q5K,
        14 => GgmlDType::Q6K,
        30 => GgmlDType::BF16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file with one value and one tensor.
    fn file(length: u64) -> Vec<u8> {
        let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(text("general.name"));
        bytes.extend(8_u32.to_le_bytes());
        bytes.extend(text("m"));
        bytes.extend(text("w"));
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend([0; 8]);
        bytes
    }

    fn message(bytes: &[u8]) -> String {
        match Header::read(bytes, bytes.len() as u64) {
            Ok(_) => "fine".into(),
            Err(HeaderError::Truncated) => "truncated".into(),
            Err(HeaderError::Invalid(reason)) => reason,
        }
    }

    #[test]
    fn malformed_files_are_refused() {
        assert_eq!(message(&file(2)), "fine");
        assert_eq!(message(&file(3)), "tensor `w` is outside of the file, which may be cut off");
        assert_eq!(message(&file(u64::MAX / 2)), "tensor `w`: its size does not match its format");
        assert_eq!(message(b"GGUF\x01\0\0\0"), "GGUF version 1; expected 2 or 3");
        assert_eq!(message(b"PK\x03\x04"), "not a GGUF file: it does not begin with `GGUF`");
    }

    #[test]
    fn announced_counts_allocate_nothing() {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(u64::MAX.to_le_bytes());
        bytes.extend(1_u64.to_le_bytes());
        assert_eq!(message(&bytes), "truncated");
    }

    proptest! {
        #[test]
        fn no_header_panics(at in 0_usize..200, value: u8, cut in 0_usize..200) {
            let mut bytes = file(2);
            let at = at % bytes.len();
            bytes[at] = value;
            bytes.truncate(bytes.len() - cut % bytes.len());
            let _ = message(&bytes);
        }
    }
}
