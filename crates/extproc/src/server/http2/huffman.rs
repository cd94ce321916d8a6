//! HPACK's Huffman code (RFC 7541, appendix B).
//!
//! The code is canonical, so the lengths of the codes determine the codes.

use std::sync::LazyLock;

/// The code length in bits of each byte, and of the end-of-string symbol.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];

const MIN_CODE_BITS: usize = 5;
const MAX_CODE_BITS: usize = 30;
const END: usize = 256;

/// Two values for each code length. `after` is the first code after those of this length, aligned to the left of 32 bits. A
/// code of this length plus `offset` is the position of its symbol in `symbols`.
struct Codes {
    after: [u64; MAX_CODE_BITS + 1],
    offset: [i64; MAX_CODE_BITS + 1],
    symbols: Vec<u16>,
}

static CODES: LazyLock<Codes> = LazyLock::new(|| {
    let mut codes = Codes {
        after: [0; MAX_CODE_BITS + 1],
        offset: [0; MAX_CODE_BITS + 1],
        symbols: Vec::with_capacity(257),
    };
    let mut code: u64 = 0;
    for length in MIN_CODE_BITS..=MAX_CODE_BITS {
        code <<= 1;
        codes.offset[length] = i64::try_from(codes.symbols.len()).unwrap_or_default() - code.cast_signed();
        for (symbol, bits) in (0..).zip(LENGTHS) {
            if usize::from(bits) == length {
                codes.symbols.push(symbol);
                code += 1;
            }
        }
        codes.after[length] = code << (32 - length);
    }
    codes
});

/// Decodes a string. Returns `None` if it is invalid.
pub(super) fn decode(coded: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let table = &*CODES;
    // The next bits, aligned to the left of 64 bits.
    let (mut bits, mut have) = (0_u64, 0_usize);
    let mut rest = coded.iter();
    loop {
        while have <= 56 {
            let Some(byte) = rest.next() else { break };
            bits |= u64::from(*byte) << (56 - have);
            have += 8;
        }
        // The padding of the last byte is the start of the end-of-string code: fewer than eight bits, all ones.
        let window = bits >> 32;
        let Some(length) = (MIN_CODE_BITS..=MAX_CODE_BITS).find(|length| window < table.after[*length])
        else {
            return (have < 8 && is_padding(bits, have)).then_some(());
        };
        if length > have {
            return (have < 8 && is_padding(bits, have)).then_some(());
        }
        let code = (bits >> (64 - length)).cast_signed();
        let place = usize::try_from(code + table.offset[length]).ok()?;
        let symbol = usize::from(*table.symbols.get(place)?);
        if symbol == END {
            return None;
        }
        into.push(u8::try_from(symbol).ok()?);
        bits <<= length;
        have -= length;
    }
}

fn is_padding(bits: u64, have: usize) -> bool {
    have == 0 || bits >> (64 - have) == (1 << have) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Option<String> {
        let mut text = Vec::new();
        decode(coded, &mut text)?;
        Some(String::from_utf8(text).unwrap())
    }

    /// The examples of RFC 7541, appendix C.
    #[test]
    fn the_examples_of_the_standard_are_decoded() {
        for (coded, text) in [
            (
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f], "custom-key"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf], "custom-value"),
            (&[0x64, 0x02], "302"),
            (&[], ""),
        ] {
            assert_eq!(decoded(coded).as_deref(), Some(text));
        }
    }

    #[test]
    fn padding_that_is_too_long_or_not_of_ones_and_an_end_within_a_string_are_errors() {
        // `a` is 00011; three ones are the padding.
        assert_eq!(decoded(&[0b0001_1111]).as_deref(), Some("a"));
        assert_eq!(decoded(&[0b0001_1000]), None);
        assert_eq!(decoded(&[0b0001_1111, 0xff]), None);
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None);
    }
}
