//! Reads numbers and texts from an untrusted header.

/// The unread part of a header.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number of list elements that are still allowed.
    elements: usize,
}

/// The most elements of all lists together. An element needs 32 times its size in the file. Vocabularies of 256 thousand
/// tokens have 1.3 million elements.
const MAX_ELEMENTS: usize = 1 << 23;

/// Why a header cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// The bytes end too early.
    Truncated,
    /// The content is invalid.
    Invalid(String),
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, elements: MAX_ELEMENTS }
    }

    /// The number of bytes that were read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], HeaderError> {
        let end = self
            .at
            .checked_add(length)
            .filter(|end| *end <= self.bytes.len())
            .ok_or(HeaderError::Truncated)?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], HeaderError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, HeaderError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, HeaderError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, HeaderError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, HeaderError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn f32(&mut self) -> Result<f32, HeaderError> {
        Ok(f32::from_le_bytes(self.array()?))
    }

    pub(super) fn f64(&mut self) -> Result<f64, HeaderError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// Reads a count of items that have at least `least` bytes each. Fails if so many items cannot follow in the header.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, HeaderError> {
        let count = self.u64()?;
        usize::try_from(count)
            .ok()
            .filter(|count| count.checked_mul(least).is_some_and(|bytes| bytes <= self.left()))
            .ok_or(HeaderError::Truncated)
    }

    /// Reads the number of elements of a list.
    pub(super) fn elements(&mut self) -> Result<usize, HeaderError> {
        let count = self.count(1)?;
        self.elements = self.elements.checked_sub(count).ok_or_else(|| {
            HeaderError::Invalid(format!("its lists have more than {MAX_ELEMENTS} elements"))
        })?;
        Ok(count)
    }

    /// Reads a text with its length before it. Vocabularies contain bytes that are not UTF-8. These become replacement
    /// characters.
    pub(super) fn text(&mut self) -> Result<String, HeaderError> {
        let length = self.count(1)?;
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }
}
