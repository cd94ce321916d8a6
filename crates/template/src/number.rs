//! Numeric literals.

use crate::{
    lexer::{Kind, Token},
    node::Number,
    quote::{Piece, quote, unquote_char},
};

/// Parses a numeric literal for every type that can represent it.
pub(crate) fn number(token: &Token<'_>) -> Result<Number, String> {
    let text: &str = &token.val;
    if token.kind == Kind::CharConstant {
        let (piece, tail) = unquote_char(&text[1..], '\'').ok_or("invalid syntax")?;
        if tail != "'" {
            return Err(format!("malformed character constant: {text}"));
        }
        let value = match piece {
            Piece::Char(c) => u32::from(c),
            Piece::Byte(b) => u32::from(b),
        };
        return Ok(Number {
            text: text.into(),
            int: Some(value.into()),
            uint: Some(value.into()),
            float: Some(value.into()),
        });
    }
    let illegal = || format!("illegal number syntax: {}", quote(text));
    if token.kind == Kind::Complex || text.ends_with('i') {
        // Go parses complex numbers, but templates cannot use them.
        return Err(illegal());
    }
    let (negative, digits) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = integer(digits);
    let mut int =
        magnitude.and_then(|m| i64::try_from(if negative { -i128::from(m) } else { m.into() }).ok());
    let mut uint = magnitude.filter(|_| !text.starts_with(['-', '+']));
    #[expect(clippy::cast_precision_loss, reason = "a float constant is as precise as Go's")]
    let mut float = int.map(|value| value as f64).or(uint.map(|value| value as f64));
    if float.is_none()
        && let Ok(value) = digits.replace('_', "").parse::<f64>()
        // Rust reads what is too large as infinity, and Go refuses it.
        && value.is_finite()
    {
        if !text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!("integer overflow: {}", quote(text)));
        }
        let value = if negative { -value } else { value };
        float = Some(value);
        // A float without a fraction can also be used as an integer, such as `1e3`.
        if value.fract() == 0.0 && value.abs() < 9.0e18 {
            #[expect(clippy::cast_possible_truncation, reason = "integral and within the range")]
            let integral = value as i64;
            int = Some(integral);
            uint = u64::try_from(integral).ok();
        }
    }
    if float.is_none() {
        return Err(illegal());
    }
    Ok(Number { text: text.into(), int, uint, float })
}

/// Parses an unsigned literal with Go's prefixes and underscores.
fn integer(digits: &str) -> Option<u64> {
    let clean = digits.replace('_', "");
    let lower = clean.to_ascii_lowercase();
    let (radix, body) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    u64::from_str_radix(body, radix).ok()
}
