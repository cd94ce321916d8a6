//! Header compression (RFC 7541): a decoder, and an encoder for the few blocks that the server sends.

use std::collections::VecDeque;

use super::huffman;
use crate::server::limits::MAX_FIELDS;

/// The size of the decoder's table in bytes, counted as in the standard, which has this default.
const TABLE: usize = 4096;
/// The overhead of each entry in the standard's count.
const ENTRY: usize = 32;

/// The block is invalid. The connection must end, because the tables of both sides may now differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecodeError;

/// A name and its value.
type Field = (Box<[u8]>, Box<[u8]>);

/// The decoder of one connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Entries of the dynamic table, newest first.
    table: VecDeque<Field>,
    size: usize,
    limit: usize,
    scratch: [Vec<u8>; 2],
}

impl Default for Decoder {
    fn default() -> Self {
        Self { table: VecDeque::new(), size: 0, limit: TABLE, scratch: [Vec::new(), Vec::new()] }
    }
}

impl Decoder {
    /// Decodes a block and calls `field` for each field.
    pub(super) fn decode(
        &mut self,
        mut block: &[u8],
        mut field: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), DecodeError> {
        // Counted as decoded: a block of a few bytes may name the longest entry of the table again and again.
        let mut listed = 0;
        let mut count = |name: &[u8], value: &[u8]| {
            listed += name.len() + value.len() + ENTRY;
            if listed > MAX_FIELDS as usize { Err(DecodeError) } else { Ok(()) }
        };
        let mut first = true;
        while let Some(&byte) = block.first() {
            if byte & 0x80 != 0 {
                let (name, value) = self.entry(integer(&mut block, 7)?)?;
                count(name, value)?;
                field(name, value);
            } else if byte & 0xe0 == 0x20 {
                // A change of the table's size is only valid before the first field.
                let limit = integer(&mut block, 5)?;
                if !first || limit > TABLE {
                    return Err(DecodeError);
                }
                self.limit = limit;
                self.shrink(limit);
                continue;
            } else {
                let is_indexed = byte & 0xc0 == 0x40;
                let index = integer(&mut block, if is_indexed { 6 } else { 4 })?;
                // Taken out, because an entry of the table is borrowed while they are written.
                let [mut name, mut value] = std::mem::take(&mut self.scratch);
                name.clear();
                value.clear();
                if index == 0 {
                    string(&mut block, &mut name)?;
                } else {
                    name.extend_from_slice(self.entry(index)?.0);
                }
                string(&mut block, &mut value)?;
                count(&name, &value)?;
                field(&name, &value);
                if is_indexed {
                    self.insert(&name, &value);
                }
                self.scratch = [name, value];
            }
            first = false;
        }
        Ok(())
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), DecodeError> {
        let index = index.checked_sub(1).ok_or(DecodeError)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let (name, value) = self.table.get(index - STATIC.len()).ok_or(DecodeError)?;
        Ok((name, value))
    }

    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY;
        // A field that is larger than the table empties the table.
        self.shrink(self.limit.saturating_sub(size));
        if size <= self.limit {
            self.size += size;
            self.table.push_front((name.into(), value.into()));
        }
    }

    fn shrink(&mut self, limit: usize) {
        while self.size > limit {
            let Some((name, value)) = self.table.pop_back() else { return };
            self.size -= name.len() + value.len() + ENTRY;
        }
    }
}

/// Decodes an integer from the last `bits` of the first byte and, if it does not fit there, from the following bytes.
fn integer(block: &mut &[u8], bits: u32) -> Result<usize, DecodeError> {
    let (first, mut rest) = block.split_first().ok_or(DecodeError)?;
    let most = (1_usize << bits) - 1;
    let mut value = usize::from(*first) & most;
    if value == most {
        // Four more bytes suffice for every length that can be valid here.
        for shift in [0, 7, 14, 21] {
            let (byte, after) = rest.split_first().ok_or(DecodeError)?;
            rest = after;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *block = rest;
                return Ok(value);
            }
        }
        return Err(DecodeError);
    }
    *block = rest;
    Ok(value)
}

fn string(block: &mut &[u8], into: &mut Vec<u8>) -> Result<(), DecodeError> {
    let coded = block.first().ok_or(DecodeError)? & 0x80 != 0;
    let length = integer(block, 7)?;
    if length > block.len() {
        return Err(DecodeError);
    }
    let (text, rest) = block.split_at(length);
    *block = rest;
    if coded {
        huffman::decode(text, into).ok_or(DecodeError)
    } else {
        into.extend_from_slice(text);
        Ok(())
    }
}

/// The headers of a response with messages: `:status: 200`, `content-type: application/grpc`. They add nothing to the table.
pub(super) const RESPONSE: &[u8] = b"\x88\x0f\x10\x10application/grpc";

/// Writes the trailers of a stream: `grpc-status`, and `grpc-message` if there is a message.
pub(super) fn trailers(status: u8, message: &str, into: &mut Vec<u8>) {
    literal("grpc-status", status.to_string().as_bytes(), into);
    if !message.is_empty() {
        // Uses gRPC's percent-encoding. A long message is truncated.
        let mut escaped = Vec::new();
        for byte in message.bytes().take(512) {
            match byte {
                b' '..=b'$' | b'&'..=b'~' => escaped.push(byte),
                other => escaped.extend_from_slice(format!("%{other:02X}").as_bytes()),
            }
        }
        literal("grpc-message", &escaped, into);
    }
}

fn literal(name: &str, value: &[u8], into: &mut Vec<u8>) {
    into.push(0);
    for text in [name.as_bytes(), value] {
        length(text.len(), into);
        into.extend_from_slice(text);
    }
}

fn length(length: usize, into: &mut Vec<u8>) {
    if length < 127 {
        into.push(u8::try_from(length).unwrap_or_default());
        return;
    }
    into.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        into.push(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
        rest >>= 7;
    }
    into.push(u8::try_from(rest).unwrap_or_default());
}

/// The static table (RFC 7541, appendix A).
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    type Fields = Vec<(String, String)>;

    fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, DecodeError> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        decoder.decode(block, |name, value| fields.push((text(name), text(value))))?;
        Ok(fields)
    }

    fn fields(fields: &[(&str, &str)]) -> Fields {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// RFC 7541, appendix C.4: three requests on one connection, with Huffman codes.
    #[test]
    fn the_requests_of_the_standard_are_decoded_one_after_the_other() {
        let mut decoder = Decoder::default();
        let first = [
            0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4,
            0xff,
        ];
        let common =
            [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
        assert_eq!(decode(&mut decoder, &first), Ok(fields(&common)));
        let second = [0x82, 0x86, 0x84, 0xbe, 0x58, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf];
        let mut expected = fields(&common);
        expected.extend(fields(&[("cache-control", "no-cache")]));
        assert_eq!(decode(&mut decoder, &second), Ok(expected));
        let third = [
            0x82, 0x87, 0x85, 0xbf, 0x40, 0x88, 0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f, 0x89, 0x25,
            0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf,
        ];
        let expected = fields(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ]);
        assert_eq!(decode(&mut decoder, &third), Ok(expected));
        assert_eq!((decoder.table.len(), decoder.size), (3, 164));
    }

    #[test]
    fn a_table_that_shrinks_forgets_its_oldest_entries_and_never_grows_beyond_what_we_allow() {
        let mut decoder = Decoder::default();
        let mut block = Vec::new();
        for number in 0..200 {
            block.extend_from_slice(&[0x40, 1, b'a', 3]);
            block.extend_from_slice(format!("{number:03}").as_bytes());
        }
        assert_eq!(decode(&mut decoder, &block).unwrap().len(), 200);
        assert!(decoder.size <= TABLE && decoder.table.len() == TABLE / 36);
        assert_eq!(decode(&mut decoder, &[0x20 | 31, 5, 0xbe]).unwrap(), fields(&[("a", "199")]));
        assert_eq!(decoder.table.len(), 1);
        assert_eq!(decode(&mut decoder, &[0x20, 0xbe]), Err(DecodeError), "an empty table has no entries");
        assert_eq!(
            decode(&mut decoder, &[0x20 | 31, 0xff, 0xff, 0x7f]),
            Err(DecodeError),
            "larger than allowed"
        );
        assert_eq!(decode(&mut decoder, &[0x82, 0x20]), Err(DecodeError), "not before the first field");
    }

    #[test]
    fn what_we_send_is_what_it_should_be() {
        let mut decoder = Decoder::default();
        assert_eq!(
            decode(&mut decoder, RESPONSE).unwrap(),
            fields(&[(":status", "200"), ("content-type", "application/grpc")])
        );
        let mut block = Vec::new();
        trailers(14, "not ready – yet", &mut block);
        assert_eq!(
            decode(&mut decoder, &block).unwrap(),
            fields(&[("grpc-status", "14"), ("grpc-message", "not ready %E2%80%93 yet")])
        );
        let mut long = Vec::new();
        trailers(2, &"x".repeat(300), &mut long);
        assert_eq!(decode(&mut decoder, &long).unwrap()[1].1, "x".repeat(300));
    }

    #[test]
    fn what_is_cut_short_is_broken() {
        for block in
            [&[0x40][..], &[0x41, 0x85, 0xff], &[0xff], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &[0x80]]
        {
            assert_eq!(decode(&mut Decoder::default(), block), Err(DecodeError), "{block:x?}");
        }
    }
}
