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

    /// Reads a number with the function that makes it from its bytes.
    pub(super) fn number<T, const N: usize>(&mut self, from: fn([u8; N]) -> T) -> Result<T, HeaderError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(from(bytes))
    }

    pub(super) fn u32(&mut self) -> Result<u32, HeaderError> {
        self.number(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, HeaderError> {
        self.number(u64::from_le_bytes)
    }

    /// Reads a count of items that have at least `min_bytes` bytes each. Fails if so many items cannot follow in the header.
    pub(super) fn count(&mut self, min_bytes: usize) -> Result<usize, HeaderError> {
        let count = self.u64()?;
        usize::try_from(count)
            .ok()
            .filter(|count| count.checked_mul(min_bytes).is_some_and(|bytes| bytes <= self.left()))
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
