//! Scalars: the style of a string, and where its lines are folded.

use std::{borrow::Cow, iter};

use k8s_openapi::jiff::civil::{Date, DateTime};
use serde_json::Number;

/// A line is folded at the first single space after this column.
const FOLD_AFTER: usize = 80;

/// The output so far.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) out: String,
    /// Characters since the last line break.
    pub(super) column: usize,
}

// === impl Writer ===

impl Writer {
    pub(super) fn put(&mut self, character: char) {
        self.out.push(character);
        self.column += 1;
    }

    pub(super) fn text(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    pub(super) fn newline(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    pub(super) fn spaces(&mut self, count: usize) {
        self.out.extend(iter::repeat_n(' ', count));
        self.column += count;
    }

    pub(super) fn break_to(&mut self, indent: usize) {
        self.newline();
        self.spaces(indent);
    }

    /// Writes a string. Continuation lines are indented.
    pub(super) fn string(&mut self, text: &str, indent: usize, place: Position) {
        if is_word(text) {
            return self.text(text);
        }
        let shape = Shape::of(text);
        if text.contains('\n') {
            if place == Position::Value && shape.block {
                self.literal(text, indent);
            } else {
                self.double_quoted(text, indent, place);
            }
        } else if reads_as_another_type(text) {
            self.double_quoted(text, indent, place);
        } else if shape.plain {
            self.folded(text, indent, place, "");
        } else if shape.single {
            self.put('\'');
            self.folded(text, indent, place, "'");
            self.put('\'');
        } else {
            self.double_quoted(text, indent, place);
        }
    }

    /// Writes plain text, or the content of a single-quoted string, in which quotes are doubled.
    fn folded(&mut self, text: &str, indent: usize, place: Position, quote: &str) {
        // Most strings are short words without a space or quote.
        if !text.contains([' ', '\'']) {
            return self.text(text);
        }
        let mut after_space = false;
        for (position, character) in text.char_indices() {
            if character == ' ' {
                let rest = &text[position + 1..];
                // As libyaml's `yaml_emitter_write_plain_scalar`: the first of several spaces is no place to fold.
                let next_is_space = rest.starts_with(' ');
                let inside = quote.is_empty() || (position > 0 && !rest.is_empty());
                if place == Position::Value
                    && !after_space
                    && self.column > FOLD_AFTER
                    && !next_is_space
                    && inside
                {
                    self.break_to(indent);
                } else {
                    self.put(' ');
                }
                after_space = true;
            } else {
                if character == '\'' {
                    self.text(quote);
                }
                self.put(character);
                after_space = false;
            }
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, place: Position) {
        self.put('"');
        let mut after_space = false;
        for (position, character) in text.char_indices() {
            if character == ' ' {
                let rest = &text[position + 1..];
                let inside = position > 0 && !rest.is_empty();
                if place == Position::Value && !after_space && self.column > FOLD_AFTER && inside {
                    self.break_to(indent);
                    // As libyaml's `yaml_emitter_write_double_quoted`: a space that begins the next line is escaped.
                    if rest.starts_with(' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(' ');
                }
                after_space = true;
                continue;
            }
            after_space = false;
            match character {
                '"' => self.text("\\\""),
                '\\' => self.text("\\\\"),
                '\n' => self.text("\\n"),
                '\t' => self.text("\\t"),
                '\r' => self.text("\\r"),
                '\0' => self.text("\\0"),
                '\u{7}' => self.text("\\a"),
                '\u{8}' => self.text("\\b"),
                '\u{b}' => self.text("\\v"),
                '\u{c}' => self.text("\\f"),
                '\u{1b}' => self.text("\\e"),
                '\u{85}' => self.text("\\N"),
                '\u{a0}' => self.text("\\_"),
                '\u{2028}' => self.text("\\L"),
                '\u{2029}' => self.text("\\P"),
                other if is_printable(other) => self.put(other),
                other => {
                    let code = u32::from(other);
                    let escaped = match code {
                        0..=0xff => format!("\\x{code:02X}"),
                        0x100..=0xffff => format!("\\u{code:04X}"),
                        _ => format!("\\U{code:08X}"),
                    };
                    self.text(&escaped);
                }
            }
        }
        self.put('"');
    }

    /// Writes a block scalar: `|` with the indicators for leading blanks and for trailing line breaks.
    fn literal(&mut self, text: &str, indent: usize) {
        self.put('|');
        if text.starts_with([' ', '\n']) {
            self.put('2');
        }
        if !text.ends_with('\n') {
            self.put('-');
        } else if text.ends_with("\n\n") || text == "\n" {
            self.put('+');
        }
        let body = text.strip_suffix('\n').unwrap_or(text);
        for line in body.split('\n') {
            self.newline();
            if !line.is_empty() {
                self.spaces(indent);
                self.text(line);
            }
        }
    }
}

/// The place of a string.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Key,
    Value,
}

/// The styles in which a string may be written in block context.
struct Shape {
    plain: bool,
    single: bool,
    block: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        const NONE: Shape = Shape { plain: false, single: false, block: false };
        if text.is_empty() {
            return Self { plain: false, single: true, block: false };
        }
        let mut shape = Self { plain: true, single: true, block: true };
        if text.starts_with("---") || text.starts_with("...") {
            shape.plain = false;
        }
        // The start and the end of the text count as blank.
        let is_blank = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r');
        let (mut first, mut after_blank) = (true, true);
        let mut rest = text;
        loop {
            // Most characters of a long script are letters, which need no closer look.
            let plain = rest.bytes().take_while(|byte| is_always_plain(*byte)).count();
            if plain > 0 {
                (first, after_blank) = (false, false);
                rest = &rest[plain..];
            }
            let mut characters = rest.chars();
            let Some(character) = characters.next() else { break };
            rest = characters.as_str();
            let next = characters.next();
            let before_blank = next.is_none_or(is_blank);
            let indicator = match character {
                '#' => after_blank,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    first
                }
                '?' | '-' => first && before_blank,
                ':' => before_blank,
                _ => false,
            };
            if indicator || character == '\n' {
                shape.plain = false;
            }
            if character != '\n' && !is_printable(character) {
                return NONE;
            }
            if character == ' ' && next == Some('\n') {
                return NONE;
            }
            if character == '\n' && next == Some(' ') {
                shape.plain = false;
                shape.single = false;
            }
            first = false;
            after_blank = is_blank(character);
        }
        if text.starts_with([' ', '\n']) || text.ends_with([' ', '\n']) {
            shape.plain = false;
        }
        if text.ends_with(' ') {
            shape.block = false;
        }
        shape
    }
}

/// Whether this byte may stand anywhere in a plain scalar.
fn is_always_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'_' | b'.' | b'/' | b'$' | b'(' | b')' | b'=' | b';' | b'<' | b'+' | b'~' | b'^' | b'\\'
        )
}

/// Whether a text has only characters that never need quotes. Most keys and values do, so they are written without a closer
/// look.
fn is_word(text: &str) -> bool {
    let harmless = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.as_bytes().iter().all(harmless)
        && !is_keyword(text)
}

/// Whether go-yaml takes a character for printable, which it does for none of more than three bytes.
fn is_printable(character: char) -> bool {
    matches!(character, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// What would read as null, a boolean or a special number if it had no quotes.
const KEYWORDS: [&str; 39] = [
    "", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", "y", "Y", "yes",
    "Yes", "YES", "n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF", ".nan", ".NaN", ".NAN",
    ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
];

fn is_keyword(text: &str) -> bool {
    text.len() <= 5 && KEYWORDS.contains(&text)
}

/// Whether go-yaml reads a text without quotes as something else than a string.
fn reads_as_another_type(text: &str) -> bool {
    // A number or date starts with a digit, or with a character that may precede one.
    let may_be_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.');
    is_keyword(text)
        || (text.starts_with(may_be_number) && (is_number(text) || is_date(text) || is_base60(text)))
}

fn is_number(text: &str) -> bool {
    let text = if text.contains('_') { Cow::Owned(text.replace('_', "")) } else { Cow::Borrowed(text) };
    let unsigned = text.strip_prefix(['+', '-']);
    let digits = unsigned.unwrap_or(&*text);
    for (prefixes, radix) in [(["0x", "0X"], 16), (["0o", "0O"], 8), (["0b", "0B"], 2)] {
        if let Some(rest) = prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix)) {
            // It must fit into 64 bits, one of which is for the sign if there is one.
            return u64::from_str_radix(rest, radix)
                .is_ok_and(|number| unsigned.is_none() || i64::try_from(number).is_ok());
        }
    }
    let is_decimal = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
    digits.bytes().all(is_decimal) && text.parse().is_ok_and(f64::is_finite)
}

/// Whether a text is a date, alone or followed by a time, in one of the layouts that go-yaml tries: `2006-1-2`, `2006-1-2 15:4:5`
/// and `2006-1-2T15:4:5Z07:00`.
fn is_date(text: &str) -> bool {
    let has_year = text.bytes().take_while(u8::is_ascii_digit).count() == 4;
    let is_zone = |zone: &str| {
        matches!(zone.as_bytes(), [b'+' | b'-', b'0'..=b'9', b'0'..=b'9', b':', b'0'..=b'9', b'0'..=b'9'])
    };
    let zoned = text.strip_suffix('Z').or_else(|| {
        let (time, zone) = text.split_at_checked(text.len().checked_sub("+07:00".len())?)?;
        is_zone(zone).then_some(time)
    });
    let is_time = |layout: &str, text: &str| DateTime::strptime(layout, text).is_ok();
    has_year
        && (Date::strptime("%Y-%m-%d", text).is_ok()
            || is_time("%Y-%m-%d %H:%M:%S%.f", text)
            || zoned.is_some_and(|time| is_time("%Y-%m-%dT%H:%M:%S%.f", &time.replace('t', "T"))))
}

/// Whether a text is a number such as `1:30`, which older YAML reads in base 60.
fn is_base60(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let Some((first, rest)) = whole.split_once(':') else { return false };
    let may_follow = |b: u8| b.is_ascii_digit() || b == b'_';
    let is_sixtieth = |part: &str| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().chain(fraction.bytes()).all(may_follow)
        && rest.split(':').all(is_sixtieth)
}

/// Formats a number as Go does, which makes JSON of it before YAML.
pub(super) fn format_number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let text = format!("{float}");
    // In JSON, a whole number has no fraction. So it is an integer again, if it fits into 64 bits.
    if let Ok(whole) = text.parse::<i64>() {
        return whole.to_string();
    }
    let exponential = format!("{float:e}");
    let Some((mantissa, exponent)) = exponential.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    // The limits of Go's format `g` with the shortest precision (`strconv.FormatFloat`).
    if (-4..6).contains(&exponent) || text.parse::<u64>().is_ok() {
        return text;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
