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
            c if is_printable(c) => out.push(c),
            c if c as u32 > 0xffff => {
                let _ = write!(out, "\\U{:08x}", c as u32);
            }
            c => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
        }
    }
    out.push(mark);
    out
}

/// Escapes characters of JSON that Go's encoder escapes, because they mean something in HTML or JavaScript. They occur in strings
/// only.
pub fn escape_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// Whether Go prints a character: letters, marks, numbers, punctuation and symbols of all scripts, and of the spaces only that of
/// ASCII.
fn is_printable(c: char) -> bool {
    // Rust escapes the same ones. As the first character of a text, it would escape a combining mark, too.
    c.is_ascii() || ['a', c].iter().collect::<String>().escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_as_go_escapes_them() {
        assert_eq!(quote("a\"b\\\n\u{7}\u{1}\u{7f}\u{85}é'"), r#""a\"b\\\n\a\x01\x7f\u0085é'""#);
        assert_eq!(quote_with("'\"", '\''), r#"'\'"'"#);
    }

    #[test]
    fn json_is_escaped_for_html() {
        assert_eq!(escape_html("{\"<é>\":\"&\u{2028}\"}"), r#"{"\u003cé\u003e":"\u0026\u2028"}"#);
    }

    #[test]
    fn what_one_cannot_see_is_escaped() {
        assert_eq!(quote("a\u{a0}b\u{200b}\u{feff}\u{e0001}"), r#""a\u00a0b\u200b\ufeff\U000e0001""#);
        assert_eq!(quote("模型 e\u{301} 😀"), "\"模型 e\u{301} 😀\"");
    }
}
