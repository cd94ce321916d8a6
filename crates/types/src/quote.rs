//! Go's quoting of strings, as its errors have it.

use std::fmt::Write as _;

/// `%q`: a double-quoted Go string literal.
pub fn quote(text: &str) -> String {
    quote_with(text, '"')
}

/// Formats a Go literal between `mark`s.
pub fn quote_with(text: &str, mark: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(mark);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            c if c == mark => {
                out.push('\\');
                out.push(c);
            }
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(mark);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_as_go_escapes_them() {
        assert_eq!(quote("a\"b\\\n\u{7}\u{1}\u{7f}\u{85}é'"), r#""a\"b\\\n\a\x01\x7f\u0085é'""#);
        assert_eq!(quote_with("'\"", '\''), r#"'\'"'"#);
    }
}
