//! Go's quoting of strings: formats `%q`, and decodes literals.

pub(crate) use longboat_types::quote::{quote, quote_with};

/// Decodes a Go string literal (quoted or raw). Returns `None` if it is malformed.
pub(crate) fn unquote(literal: &str) -> Option<String> {
    let mark = literal.chars().next()?;
    let body = literal.strip_prefix(mark)?.strip_suffix(mark)?;
    if mark == '`' {
        return Some(body.replace('\r', ""));
    }
    let mut bytes = Vec::with_capacity(body.len());
    let mut rest = body;
    while !rest.is_empty() {
        let (piece, tail) = unquote_char(rest, mark)?;
        match piece {
            Piece::Char(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Piece::Byte(b) => bytes.push(b),
        }
        rest = tail;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// One decoded element of a literal.
pub(crate) enum Piece {
    /// A character.
    Char(char),
    /// A byte given by `\x..` or in octal.
    Byte(u8),
}

/// Decodes the first character or escape of `text`. Returns `None` if it is malformed.
pub(crate) fn unquote_char(text: &str, mark: char) -> Option<(Piece, &str)> {
    let mut chars = text.chars();
    let c = chars.next()?;
    if c == mark && (mark == '\'' || mark == '"') || c == '\n' {
        return None;
    }
    if c != '\\' {
        return Some((Piece::Char(c), chars.as_str()));
    }
    let escape = chars.next()?;
    let rest = chars.as_str();
    let simple = match escape {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' => '\\',
        '\'' | '"' if escape == mark => escape,
        'x' => return hex(rest, 2).and_then(|(v, rest)| Some((Piece::Byte(u8::try_from(v).ok()?), rest))),
        'u' => return hex(rest, 4).and_then(|(v, rest)| Some((Piece::Char(char::from_u32(v)?), rest))),
        'U' => return hex(rest, 8).and_then(|(v, rest)| Some((Piece::Char(char::from_u32(v)?), rest))),
        '0'..='7' => {
            let digits = text.get(1..4)?;
            let value = u32::from_str_radix(digits, 8).ok()?;
            return Some((Piece::Byte(u8::try_from(value).ok()?), text.get(4..)?));
        }
        _ => return None,
    };
    Some((Piece::Char(simple), rest))
}

fn hex(text: &str, digits: usize) -> Option<(u32, &str)> {
    let value = text.get(..digits)?;
    if !value.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some((u32::from_str_radix(value, 16).ok()?, text.get(digits..)?))
}
