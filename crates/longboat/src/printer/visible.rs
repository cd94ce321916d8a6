//! What others wrote (names, messages, answers of models) must not steer the terminal: a code that moves the cursor, or a mark that turns
//! the direction of text, could hide a line or forge one. Pure functions.

use std::{borrow::Cow, fmt::Write};

/// Whether a terminal obeys this character instead of showing it, or text around it would be shown in another order.
pub(super) fn steers(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t')
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// Whether a reader cannot see this character. Sentences of some languages need such marks, names do not.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2060}' | '\u{feff}')
}

/// Returns the length of a colour or style at the start of a text. Of these codes, the harmless ones stay: they are our own.
fn style_len(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\u{1b}[")?;
    let end = rest.find(|character: char| !character.is_ascii_digit() && character != ';')?;
    let is_harmless = |code: &str| {
        let code: u8 = if code.is_empty() { 0 } else { code.parse().unwrap_or(u8::MAX) };
        matches!(code, 0..=4 | 22..=24 | 31..=37 | 39 | 90..=97)
    };
    (rest[end..].starts_with('m') && rest[..end].split(';').all(is_harmless)).then_some(end + 3)
}

fn replaced(text: &str, keeps_styles: bool, is_replaced: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let style = style_len(rest).filter(|_| keeps_styles);
        let len = style.unwrap_or(character.len_utf8());
        if style.is_none() && is_replaced(character) {
            let _ = write!(shown, "{}", character.escape_unicode());
        } else {
            shown.push_str(&rest[..len]);
        }
        rest = &rest[len..];
    }
    Cow::Owned(shown)
}

/// Lines of this program with its colours: whatever else a terminal would obey is shown as `\u{1b}`.
pub(super) fn styled(text: &str) -> Cow<'_, str> {
    replaced(text, true, |character| steers(character) || is_invisible(character))
}

/// Text of others without any codes.
pub(super) fn message(text: &str) -> Cow<'_, str> {
    replaced(text, false, |character| steers(character) || is_invisible(character))
}

/// Text of others that has to stay in its line.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    replaced(text, false, |character| character == '\n' || steers(character) || is_invisible(character))
}

/// A piece of a model's answer. It may begin within a code, so each character counts alone.
pub(super) fn answer(text: &str) -> Cow<'_, str> {
    replaced(text, false, steers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_and_our_colours_stay() {
        for text in
            ["plain", "two\nlines\tand a tab", "\u{1b}[1m\u{1b}[31merror:\u{1b}[39m\u{1b}[0m", "שלום é 好 👩‍👩‍👧"]
        {
            assert_eq!(styled(text), text);
        }
        let hostile = "a\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}8m\u{1b}[8mb\r\u{202e}\u{200f}\nc";
        let shown = r"a\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}8m\u{1b}[8mb\u{d}\u{202e}\u{200f}";
        for function in [styled, message] {
            assert_eq!(function(hostile), format!("{shown}\nc"));
        }
        assert_eq!(one_line(hostile), format!(r"{shown}\u{{a}}c"));
        // A model may need marks for its language, but neither overrides nor colours.
        assert_eq!(answer("\u{1b}[31mא\u{200f}!\u{202e}"), "\\u{1b}[31mא\u{200f}!\\u{202e}");
        assert_eq!(message("\u{1b}[31mred"), r"\u{1b}[31mred");
        // A code that ends in the next piece, or never.
        assert_eq!([styled("\u{1b}[31"), styled("\u{1b}")], [r"\u{1b}[31", r"\u{1b}"]);
    }
}
