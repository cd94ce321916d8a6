//! Percent-encoding of names in URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that are not encoded in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
/// The characters that are not encoded in one part of a path, or in a query value.
const PART: &AsciiSet = &PATH.add(b'/');

/// Encodes a path. Its slashes stay separators.
pub(crate) fn path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// Encodes a text so that none of its characters has a special meaning.
pub(crate) fn part(text: &str) -> String {
    utf8_percent_encode(text, PART).to_string()
}
