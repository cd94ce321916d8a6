//! Collects the text of a prompt without holding any part of it twice.
//!
//! A JSON string stays in the body, still escaped, until it is appended: unescaping it earlier would copy it twice. Only the
//! beginning of a long text is kept, up to the length that prefixes are compared by, and the text's length.

use longboat_scheduler::Prompt;
use serde_json::value::RawValue;
use xxhash_rust::xxh64::Xxh64;

use super::{image_size, parsed::Reading};
use crate::buffer_pool;

/// A JSON string as it is in the body, without its quotes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn starts_with(self, beginning: &str) -> bool {
        self.0.starts_with(beginning)
    }

    /// Returns `None` if the value is not a string.
    pub(super) fn of(raw: &'a RawValue) -> Option<Self> {
        raw.get().strip_prefix('"')?.strip_suffix('"').map(Self)
    }
}

/// The bytes of a token.
const TOKEN: usize = 4;

/// An image, audio or video, by its URL or its data.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asset<'a> {
    Image(Words<'a>),
    ImageData(Words<'a>),
    Video(Words<'a>),
    Audio(Words<'a>),
    /// With the name of its format, which may be empty.
    AudioData(Words<'a>, Words<'a>),
}

/// A prompt that is being collected.
#[derive(Debug)]
pub(super) struct PromptBuffer<'a> {
    bytes: Vec<u8>,
    /// The number of bytes that count for the length and are not kept.
    cut: usize,
    reading: &'a Reading,
}

impl<'a> PromptBuffer<'a> {
    pub(super) fn new(reading: &'a Reading) -> Self {
        Self { bytes: Vec::new(), cut: 0, reading }
    }

    /// Makes room for `more` bytes, or for as many of them as are kept.
    fn reserve(&mut self, more: usize) {
        let needed = self.bytes.len().saturating_add(more).min(self.reading.limit);
        if needed > self.bytes.capacity() {
            let mut larger = buffer_pool::take(needed.max(self.bytes.capacity().saturating_mul(2)));
            larger.extend_from_slice(&self.bytes);
            buffer_pool::give(std::mem::replace(&mut self.bytes, larger));
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let kept = bytes.len().min(self.reading.limit.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.cut += bytes.len() - kept;
    }

    /// Appends the unescaped JSON string. An unpaired surrogate becomes the replacement character, as in Go.
    pub(super) fn push_words(&mut self, Words(raw): Words<'_>) {
        // Unescaped text is never longer than escaped text.
        self.reserve(raw.len());
        let mut rest = raw;
        while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
            self.push(&rest.as_bytes()[..at]);
            let (character, after) = escaped(&rest[at + 1..]);
            self.push(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = after;
        }
        self.push(rest.as_bytes());
    }

    /// Appends an image, audio or video as tokens, as many as it counts as. Each is the beginning of the hash of its URL or data
    /// with the format.
    pub(super) fn push_media(&mut self, media: Asset<'_>) {
        let Reading { estimates, video, limit } = self.reading;
        let (Words(content), format, count) = match media {
            Asset::Image(url) => (url, "", estimates.image(image_size::of_url(url.0.as_bytes()))),
            Asset::ImageData(data) => (data, "", estimates.image(image_size::of_base64(data.0.as_bytes()))),
            Asset::Video(content) => (content, "", estimates.video(video)),
            Asset::Audio(url) => (url, "", 1),
            Asset::AudioData(data, Words(format)) => {
                (data, format, (data.0.len() + format.len()).div_ceil(TOKEN).max(1))
            }
        };
        let length = self.bytes.len() + self.cut;
        self.push(&[0; TOKEN][..length.next_multiple_of(TOKEN) - length]);
        let kept = (count * TOKEN).min(limit.saturating_sub(self.bytes.len()));
        self.reserve(kept);
        let mut hash = Xxh64::new(0);
        hash.update(content.as_bytes());
        hash.update(format.as_bytes());
        self.bytes.extend(hash.digest().to_le_bytes()[..TOKEN].iter().cycle().take(kept));
        self.cut += count * TOKEN - kept;
    }

    pub(super) fn into_prompt(self) -> Prompt {
        Prompt { bytes: self.bytes, cut: self.cut }
    }
}

/// Reads an escape after its backslash. Returns its character and the text after it. The JSON reader has already checked that
/// escapes are complete.
fn escaped(text: &str) -> (char, &str) {
    let mut characters = text.chars();
    let character = match characters.next() {
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => return from_hex(characters.as_str()),
        Some(other) => other,
        None => char::REPLACEMENT_CHARACTER,
    };
    (character, characters.as_str())
}

fn from_hex(text: &str) -> (char, &str) {
    let Some((first, rest)) = unit(text) else { return (char::REPLACEMENT_CHARACTER, "") };
    if let Some((second, after)) = rest.strip_prefix("\\u").and_then(unit)
        && let Some(Ok(character)) = char::decode_utf16([first, second]).next()
        && character.len_utf16() == 2
    {
        return (character, after);
    }
    (char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER), rest)
}

/// Reads four hexadecimal digits.
fn unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    u16::from_str_radix(digits, 16).ok().map(|unit| (unit, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(json: &str, limit: usize) -> Prompt {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let reading = Reading { limit, ..Reading::default() };
        let mut collected = PromptBuffer::new(&reading);
        collected.push_words(Words::of(raw).unwrap());
        collected.into_prompt()
    }

    proptest! {
        #[test]
        fn a_string_means_what_serde_json_says(text: String, limit in 0_usize..40) {
            let units: Vec<String> = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let ascii = format!("\"{}\"", units.concat());
            for json in [serde_json::to_string(&text).unwrap(), ascii] {
                prop_assert_eq!(read(&json, usize::MAX).bytes, text.as_bytes());
                let cut = read(&json, limit);
                prop_assert_eq!(&cut.bytes[..], &text.as_bytes()[..limit.min(text.len())]);
                prop_assert_eq!(cut.bytes.len() + cut.cut, text.len());
            }
        }
    }

    #[test]
    fn every_escape_is_known_and_halves_of_characters_are_replaced() {
        let all = r#""\"\\\/\b\f\n\r\t\ud83d\ude00\ud83d!\ude00\ud83d\ud83d\ude00\ud83dA""#;
        let meant = "\"\\/\u{8}\u{c}\n\r\t😀\u{fffd}!\u{fffd}\u{fffd}😀\u{fffd}A";
        assert_eq!(String::from_utf8(read(all, usize::MAX).bytes).unwrap(), meant);
    }
}
