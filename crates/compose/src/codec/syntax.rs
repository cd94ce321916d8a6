//! Syntax errors in JSON, worded like Go's scanner.

use longboat_types::quote::quote_with;
use serde_json::Value;

/// Parses JSON.
///
/// # Errors
///
/// Go's message, `invalid character 'c' after object key:value pair`.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| {
        let mut scanner = Scanner { bytes: text.as_bytes(), pos: 0, depth: 0 };
        match scanner.document() {
            Err(message) => message,
            // Go accepts some texts that serde refuses: numbers out of range, lone surrogates.
            Ok(()) => error.to_string(),
        }
    })
}

struct Scanner<'a> {
    bytes: &'a [u8],
    pos: usize,
    depth: usize,
}

/// The deepest nesting. Go's limit is 10,000, but each level needs stack here.
const MAX_DEPTH: usize = 1_000;

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.pos += 1;
        }
    }

    /// Returns the error for the current byte.
    fn unexpected(&self, context: &str) -> String {
        match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => {
                // Go's scanner takes each byte of a longer character for a character of its own.
                let shown = quote_with(char::from(byte).encode_utf8(&mut [0; 4]), '\'');
                format!("invalid character {shown} {context}")
            }
        }
    }

    fn document(&mut self) -> Result<(), String> {
        self.value()?;
        self.space();
        if self.peek().is_some() {
            return Err(self.unexpected("after top-level value"));
        }
        Ok(())
    }

    fn value(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.space();
        match self.peek() {
            Some(b'{') => self.entries(b'}', "after object key:value pair", Self::member)?,
            Some(b'[') => self.entries(b']', "after array element", Self::value)?,
            Some(b'"') => self.string()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal("true")?,
            Some(b'f') => self.literal("false")?,
            Some(b'n') => self.literal("null")?,
            _ => return Err(self.unexpected("looking for beginning of value")),
        }
        self.depth -= 1;
        Ok(())
    }

    fn member(&mut self) -> Result<(), String> {
        self.space();
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        self.string()?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.pos += 1;
        self.value()
    }

    /// Reads the entries of an object or an array up to its closing bracket. `after` is the place of an error between them.
    fn entries(
        &mut self,
        close: u8,
        after: &str,
        entry: fn(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.pos += 1;
        self.space();
        if self.peek() == Some(close) {
            self.pos += 1;
            return Ok(());
        }
        loop {
            entry(self)?;
            self.space();
            match self.peek() {
                Some(b',') => self.pos += 1,
                Some(found) if found == close => {
                    self.pos += 1;
                    return Ok(());
                }
                _ => return Err(self.unexpected(after)),
            }
        }
    }

    fn string(&mut self) -> Result<(), String> {
        self.pos += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.pos += 1;
                    match self.peek() {
                        Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.pos += 1,
                        Some(b'u') => {
                            self.pos += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                                    return Err(self.unexpected("in \\u hexadecimal character escape"));
                                }
                                self.pos += 1;
                            }
                        }
                        _ => return Err(self.unexpected("in string escape code")),
                    }
                }
                Some(byte) if byte >= 0x20 => self.pos += 1,
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.pos += 1;
        }
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        match self.peek() {
            Some(b'0') => self.pos += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.pos += 1;
            if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
                return Err(self.unexpected("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.pos += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
                return Err(self.unexpected("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let expected = char::from(expected);
                return Err(self.unexpected(&format!("in literal {word} (expecting '{expected}')")));
            }
            self.pos += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn characters_that_json_does_not_have_are_shown_as_go_shows_them() {
        for (text, error) in [
            ("\u{7}", "invalid character '\\a' looking for beginning of value"),
            ("\"\u{8}\"", "invalid character '\\b' in string literal"),
            ("[1\u{b}]", "invalid character '\\v' after array element"),
            ("{\u{c}}", "invalid character '\\f' looking for beginning of object key string"),
            ("\u{1}", "invalid character '\\x01' looking for beginning of value"),
            ("{}\\", "invalid character '\\\\' after top-level value"),
            ("'", "invalid character '\\'' looking for beginning of value"),
            ("{1", "invalid character '1' looking for beginning of object key string"),
            ("\u{85}", "invalid character 'Â' looking for beginning of value"),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text:?}");
        }
    }
}
