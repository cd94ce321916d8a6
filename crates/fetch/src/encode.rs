//! Percent-encoding of names in addresses.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What a path keeps.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
/// What one part of a path, or a value in a query, keeps.
const PART: &AsciiSet = &PATH.add(b'/');

/// A path whose slashes separate.
pub(crate) fn path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// A text without any meaning of its characters.
pub(crate) fn part(text: &str) -> String {
    utf8_percent_encode(text, PART).to_string()
}
